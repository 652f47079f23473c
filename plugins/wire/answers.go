// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"strings"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
)

// checkAnswer fails with Broken in these cases:
//   - The answer about a bootstrap, SMTP AUTH or a sign-in at a sending platform has a state or
//     step that docs/plugin-protocol.md does not list.
//   - The zone, domain, mailbox or account in the answer is not the requested one, or a record set
//     is not in the requested zone. The host could store the id of a wrong object and later remove
//     that object, or it could write to a wrong zone.
//   - A tenant has no built-in domain, or a number of user mailboxes or licences or the recipient
//     limit is negative.
//
// checkAnswer checks no lists other than record sets. From a list of accounts, the host uses only
// the accounts of known mailboxes. dns.DesiredRecords omits records outside the domain.
//
// checkAnswer panics if the request lacks the field that it compares with the answer.
func checkAnswer(request, answer protobuf.Message) error {
	matches, isKnown, isPossible := true, true, true
	switch a := answer.(type) {
	case *proto.DNSZone:
		matches = sameName(a.GetName(), request.(interface{ GetName() string }).GetName())
	case *proto.RecordSets:
		zone := request.(interface{ GetZone() *proto.DNSZone }).GetZone().GetName()
		matches = !slices.ContainsFunc(a.GetSets(), func(s *proto.RecordSet) bool {
			return !recordSetFromProto(s).InZone(zone)
		})
	case *proto.PlatformDomain:
		matches = sameName(a.GetName(), request.(interface{ GetName() string }).GetName())
	case *proto.SharedMailbox:
		matches = integration.SameAddress(a.GetAddress(), request.(interface{ GetAddress() string }).GetAddress())
	case *proto.SendingAccount: // without an id there is no account
		requested := request.(interface{ GetAddress() string }).GetAddress()
		matches = a.GetId() == "" || integration.SameAddress(a.GetAddress(), requested)
	case *proto.TenantProfile: // the name of a tenant may be empty
		isPossible = a.GetBuiltinDomain() != ""
	case *proto.UserMailboxesAnswer:
		isPossible = a.GetCount() >= 0
	case *proto.EmailLicensesAnswer:
		isPossible = min(a.GetPaid(), a.GetTrial(), a.GetRecipientLimit()) >= 0
	case *proto.Progress:
		isKnown = slices.Contains(bootstrapStates, tenant.Bootstrap(a.GetStatus())) && slices.Contains(bootstrapSteps, tenant.BootstrapStep(a.GetStep()))
	case *proto.SMTPAuthAnswer:
		isKnown = slices.Contains(smtpAuthStates, tenant.SMTPAuth(a.GetState()))
	case *proto.SendingProgress:
		isKnown = slices.Contains(signInStates, integration.SignInState(a.GetState()))
	}
	switch {
	case !matches:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer is about a different object than the request"}
	case !isKnown:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer has a state that tenantry does not know"}
	case !isPossible:
		return &outcome.Error{Kind: outcome.Broken, Cause: CauseProtocol, Detail: "the plugin's answer lacks the built-in domain of the tenant, or has a negative count"}
	default:
		return nil
	}
}

// The valid states in answers. An account of a sending platform with an unknown state gets the
// state integration.AccountOther, because an error for it would hide the other accounts of the
// list.
var (
	bootstrapStates = []tenant.Bootstrap{tenant.BootstrapPending, tenant.BootstrapReady, tenant.BootstrapFailed}
	bootstrapSteps  = []tenant.BootstrapStep{tenant.StepNone, tenant.StepWait, tenant.StepGrantRole, tenant.StepReconnect, tenant.StepNoExchange}
	smtpAuthStates  = []tenant.SMTPAuth{tenant.SMTPAuthUnknown, tenant.SMTPAuthEnabled, tenant.SMTPAuthDisabled, tenant.SMTPAuthRefused}
	signInStates    = []integration.SignInState{integration.SignInPending, integration.SignInSucceeded, integration.SignInFailed, integration.SignInExpired}
	accountStates   = []integration.AccountState{integration.AccountConnected, integration.AccountPending, integration.AccountFailed, integration.AccountOther}
)

// accountStateFromProto returns the state of an account, and AccountOther for an unknown state. For
// an absent account, which has no id, it returns the state unchanged.
func accountStateFromProto(a *proto.SendingAccount) integration.AccountState {
	if state := integration.AccountState(a.GetState()); a.GetId() == "" || slices.Contains(accountStates, state) {
		return state
	}
	return integration.AccountOther
}

func sameName(a, b string) bool { return plainName(a) == plainName(b) }

// plainName returns a DNS name or host in lower case and without its final dot, for comparisons. It
// does not convert U-labels, because the host and the plugins use A-labels. For hosts that accounts
// enter, see asciiHost.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }
