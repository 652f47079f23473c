// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
)

type integrationPath struct {
	IntegrationID string `path:"integration_id"`
}

type createIntegrationInput struct {
	Body createIntegration
}

// createIntegration is the body of create-integration. The provider checks the form of the
// credential.
type createIntegration struct {
	Provider    string        `json:"provider" minLength:"1" maxLength:"64" doc:"The sending platform: instantly, plusvibe, smartlead, salesblink, or one that the operator added."`
	Name        string        `json:"name" doc:"A label of your own, 1 to 256 characters."`
	APIKey      string        `json:"api_key" minLength:"1" maxLength:"4096" writeOnly:"true" doc:"The platform's credential. It is tested, stored encrypted and never shown. Where a platform takes more than a key it is a JSON object in a text, as the guide above says."`
	WorkspaceID workspaceName `json:"workspace_id,omitempty" maxLength:"256" doc:"The workspace at the platform, where the credential reaches several."`
}

// workspaceName is an optional text that must not be null. Huma accepts null for every optional
// member, so the type checks it.
type workspaceName string

// nullWorkspace marks a member that was null. No text in a request can contain this value.
const nullWorkspace workspaceName = "\x00"

// UnmarshalJSON implements json.Unmarshaler.
func (w *workspaceName) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*w = nullWorkspace
		return nil
	}
	return json.Unmarshal(raw, (*string)(w))
}

func (b createIntegration) newIntegration(owner access.AccountID) (integrations.New, error) {
	if b.WorkspaceID == nullWorkspace {
		return integrations.New{}, invalid("a member has the wrong type", fault.Field{Location: "body.workspace_id", Message: "expected string"})
	}
	name, err := mailbox.DisplayName(norm.NFC.String(b.Name), "body.name")
	return integrations.New{Account: owner, Provider: b.Provider, Name: name, APIKey: secret.New(b.APIKey), WorkspaceID: string(b.WorkspaceID)}, err
}

func integrationOperations(api huma.API, service *integrations.Service) {
	createIntegrationOperation(api, service)
	listIntegrations(api, service)
	getIntegration(api, service)
	testIntegration(api, service)
	deleteIntegration(api, service)
	listEligible(api, service)
	beginSignIn(api, service)
	getSignIn(api, service)
	refreshMailboxes(api, service)
	disconnectMailbox(api, service)
}

func createIntegrationOperation(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "create-integration", Method: http.MethodPost, Path: "/v1/integrations", Tags: []string{tagSending},
		Summary: "Add an integration",
		Description: "Stores the credential of a sending platform, after a test of it at the platform. It is never shown again. When it reaches " +
			"several workspaces and none of them is named, the refusal lists them: send the request again with `workspace_id` and a new " +
			"Idempotency-Key.",
		Metadata: terms{bucket: providerHeavyWrites, write: true, request: exampleCreate, answer: exampleIntegration,
			refuses: codes(sendingCodes, only(fault.CredentialRejected, fault.UnknownProvider, fault.PlusVibeWorkspace, fault.SalesBlinkWorkspace,
				fault.EmailBisonWorkspace))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *createIntegrationInput) (IntegrationEntry, error) {
		wanted, err := in.Body.newIntegration(who.Account.ID)
		if err != nil {
			return IntegrationEntry{}, err
		}
		made, err := service.Create(completing(ctx, integrationOf), wanted)
		if err != nil {
			return IntegrationEntry{}, err
		}
		return integrationOf(made), nil
	})
}

func listIntegrations(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "list-integrations", Method: http.MethodGet, Path: "/v1/integrations", Tags: []string{tagSending},
		Summary:     "List integrations",
		Description: "Lists the account's integrations with sending platforms, newest first.",
		Metadata:    terms{bucket: reads, answer: exampleIntegrationList}.metadata(),
	}, func(ctx context.Context, who access.Caller, _ *struct{}) (integrationList, error) {
		all, err := service.List(ctx, who.Account.ID)
		if err != nil {
			return integrationList{}, err
		}
		list := each(all, integrationOf)
		return integrationList{Integrations: list, Count: len(list)}, nil
	})
}

func getIntegration(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "get-integration", Method: http.MethodGet, Path: "/v1/integrations/{integration_id}", Tags: []string{tagSending},
		Summary:     "Get an integration",
		Description: "Returns an integration with the number of its mailbox connections, from what is stored. The platform is not asked.",
		Metadata:    terms{bucket: reads, answer: exampleIntegrationDetail, refuses: only(fault.IntegrationNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *integrationPath) (integrationDetail, error) {
		i, counts, err := service.Get(ctx, who.Account.ID, ident.Lookup(in.IntegrationID))
		if err != nil {
			return integrationDetail{}, err
		}
		return integrationDetail{IntegrationEntry: integrationOf(i), MailboxConnections: countsOf(counts)}, nil
	})
}

func testIntegration(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "test-integration", Method: http.MethodPost, Path: "/v1/integrations/{integration_id}/test", Tags: []string{tagSending},
		Summary: "Test an integration",
		Description: "Asks the platform whether it takes the credential. That it does not is an answer too: 200 with `status` `failed`, and " +
			"`has_error` of the integration is true until a test succeeds.",
		Metadata: terms{bucket: providerHeavyWrites, write: true, answer: exampleTested,
			refuses: codes(sendingCodes, only(fault.IntegrationNotFound))}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *integrationPath) (testedIntegration, error) {
		t, err := service.Test(completing(ctx, testedOf), who.Account.ID, ident.Lookup(in.IntegrationID))
		if err != nil {
			return testedIntegration{}, err
		}
		return testedOf(t), nil
	})
}

func deleteIntegration(api huma.API, service *integrations.Service) {
	register(api, huma.Operation{
		OperationID: "delete-integration", Method: http.MethodDelete, Path: "/v1/integrations/{integration_id}", Tags: []string{tagSending},
		Summary: "Delete an integration",
		Description: "Removes the stored credential with the integration's connections and sessions, so that its mailboxes may connect " +
			"elsewhere. The platform is not called: what is connected there stays until somebody takes it out there.",
		Metadata: terms{bucket: providerHeavyWrites, write: true, answer: exampleGone, refuses: only(fault.IntegrationNotFound)}.metadata(),
	}, func(ctx context.Context, who access.Caller, in *integrationPath) (deletedIntegration, error) {
		d, err := service.Delete(completing(ctx, deletedIntegrationOf), who.Account.ID, ident.Lookup(in.IntegrationID))
		if err != nil {
			return deletedIntegration{}, err
		}
		return deletedIntegrationOf(d), nil
	})
}
