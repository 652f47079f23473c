// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
)

type connectionPath struct {
	IntegrationID string `path:"integration_id"`
	MailboxID     string `path:"mailbox_id"`
}

type sessionInput struct {
	IntegrationID string `path:"integration_id"`
	MailboxID     string `path:"mailbox_id"`
	SessionID     string `query:"session_id" required:"true"`
}

const (
	connectionsPath = "/v1/integrations/{integration_id}/mailboxes"
	signInPath      = connectionsPath + "/{mailbox_id}/oauth/microsoft"
)

func listEligible(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "list-integration-mailboxes", Method: http.MethodGet, Path: connectionsPath, Tags: []string{tagSending},
		Summary: "List mailboxes that can be connected",
		Description: "Lists all mailboxes that this service made in tenants of the account, with their connection through this integration. " +
			"Mailboxes that discovery found are not listed and cannot be connected.",
		Metadata: terms{bucket: reads, answer: exampleEligible, refuses: only(fault.IntegrationNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *integrationPath) (eligibleList, error) {
		id := ident.Lookup(in.IntegrationID)
		all, err := service.Mailboxes(ctx, who.Account.ID, id)
		if err != nil {
			return eligibleList{}, err
		}
		list := each(all, eligibleOf)
		return eligibleList{IntegrationID: id, Mailboxes: list, Count: len(list)}, nil
	})
}

func beginSignIn(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "begin-microsoft-oauth", Method: http.MethodPost, Path: signInPath + "/init", Tags: []string{tagSending},
		Summary: "Begin to connect a mailbox",
		Description: "Has the platform make a link by which a person signs this mailbox in with Microsoft. Open `auth_url` in a browser, best in " +
			"a private window, and sign in as the mailbox and nobody else; then ask for the status of the session. A mailbox connects through " +
			"one integration at a time.",
		Metadata: terms{bucket: providerHeavyWrites, write: true, answer: exampleSignIn,
			refuses: codes(sendingCodes, only(fault.CredentialRejected, fault.TenantLimitReached, fault.IntegrationNotFound, fault.MailboxNotFound,
				fault.ConnectedElsewhere, fault.SessionActive, fault.CapabilityMissing))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *connectionPath) (begunSession, error) {
		b, err := service.Begin(completing(ctx, begunSessionOf), who.Account, ident.Lookup(in.IntegrationID), ident.Lookup(in.MailboxID))
		if err != nil {
			return begunSession{}, err
		}
		return begunSessionOf(b), nil
	})
}

func getSignIn(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "get-microsoft-oauth-status", Method: http.MethodGet, Path: signInPath + "/status", Tags: []string{tagSending},
		Summary: "Get how a sign-in stands",
		Description: "Asks the platform how a session stands, at most every 3 seconds however often this is called. `connected` is certain: the " +
			"account that signed in is the mailbox's. A session that nobody finished is looked at once more before it is `expired`; begin a " +
			"new one after `failed` or `expired`.",
		Metadata: terms{bucket: providerHeavy, answer: exampleSession,
			refuses: codes(sendingCodes, only(fault.InvalidRequest, fault.CredentialRejected, fault.IntegrationNotFound, fault.MailboxNotFound,
				fault.SessionNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *sessionInput) (sessionState, error) {
		s, err := service.Status(ctx, who.Account.ID, ident.Lookup(in.IntegrationID), ident.Lookup(in.MailboxID), ident.Lookup(in.SessionID))
		if err != nil {
			return sessionState{}, err
		}
		return sessionOf(s), nil
	})
}

func refreshMailboxes(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "refresh-integration-mailboxes", Method: http.MethodPost, Path: connectionsPath + "/refresh", Tags: []string{tagSending},
		Summary: "Refresh the connections",
		Description: "Reads the platform's list of mail accounts and stores which mailboxes are connected. It is for when something was missed: a " +
			"closed popup, an account that was taken out there, a disconnect without an answer. A list that could not be read to its end " +
			"disconnects nobody.",
		Metadata: terms{bucket: providerHeavyWrites, write: true, answer: exampleRefreshed,
			refuses: codes(sendingCodes, only(fault.CredentialRejected, fault.IntegrationNotFound, fault.CapabilityMissing))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *integrationPath) (refreshedMailboxes, error) {
		r, err := service.Refresh(completing(ctx, refreshedOf), who.Account.ID, ident.Lookup(in.IntegrationID))
		if err != nil {
			return refreshedMailboxes{}, err
		}
		return refreshedOf(r), nil
	})
}

func disconnectMailbox(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "disconnect-mailbox", Method: http.MethodDelete, Path: connectionsPath + "/{mailbox_id}", Tags: []string{tagSending},
		Summary: "Disconnect a mailbox",
		Description: "Takes the mailbox's account out of the platform, campaigns included. An account that is gone already is disconnected. When the " +
			"outcome is not known the answer is 504 and the connection is `disconnecting`: the same request again, or a refresh, decides, and " +
			"until then the mailbox connects nowhere else.",
		Metadata: terms{bucket: providerHeavyWrites, write: true, answer: exampleDisconnected,
			refuses: codes(sendingCodes, only(fault.CredentialRejected, fault.IntegrationNotFound, fault.MailboxNotFound, fault.CapabilityMissing))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *connectionPath) (disconnectedMailbox, error) {
		d, err := service.Disconnect(completing(ctx, disconnectedOf), who.Account.ID, ident.Lookup(in.IntegrationID), ident.Lookup(in.MailboxID))
		if err != nil {
			return disconnectedMailbox{}, err
		}
		return disconnectedOf(d), nil
	})
}
