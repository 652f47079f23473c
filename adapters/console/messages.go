// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/platform"
)

// message is the text of an error page: what happened, and what to do next. The texts in package
// fault are for API clients. These texts are for an administrator who has opened a link.
type message struct{ Title, About, Next string }

// brokenPage is the answer if a page cannot be rendered.
const brokenPage = "something went wrong on our side"

// messages maps error codes to their messages. For a code that is not listed here, messageOf
// chooses the message.
var messages = map[string]message{
	fault.ConnectLinkInvalid.Name: {
		"This link does not work any more",
		"A link works once, until it expires, and in one browser from beginning to end. This link was already used, has expired, was changed on its way, was replaced by a newer link, or was opened first in a different browser.",
		"If you have just connected the tenant, all is well. Otherwise ask whoever sent you the link for a new one.",
	},
	fault.ConsentDeclined.Name: {
		"The connection was not completed",
		"The approval or the sign-in was cancelled, or the approval did not reach the tenant. Nothing was connected.",
		"If that was not what you wanted, ask for a new link, approve the access and sign in.",
	},
	fault.NotAdministrator.Name: {
		"Only an administrator can connect a tenant",
		"You signed in as a guest, or without the role {administrator} in this tenant. Nothing was connected.",
		"Ask for a new link, and open it with the role {administrator} of the tenant itself.",
	},
	fault.TenantLimitReached.Name: {
		"The account has no room for another tenant",
		"The account that asked for this link manages as many tenants as its plan allows. Nothing was connected.",
		"Tell whoever sent you the link. With a larger plan, or one tenant less, a new link will work.",
	},
	fault.NoAPIPlan.Name: {
		"The account has no active plan",
		"The account that asked for this link cannot manage tenants at the moment. Nothing was connected.",
		"Tell whoever sent you the link. Once the plan is active, a new link will work.",
	},
	fault.TenantHeld.Name: {
		"This tenant is connected already",
		"A tenant is managed by one account at a time, so nothing was connected now.",
		"Disconnect it from that account first. Then ask for a new link.",
	},
	fault.InvalidRequest.Name: {
		"The request was incomplete",
		"Your browser did not send everything that this page needs.",
		"Ask whoever sent you the link for a new one.",
	},
}

// messageOf returns the message of an error code. A code without its own message gets a general
// message: one for unknown pages, one for everything else. {administrator} stands for the
// platform's name of the role that can give consent.
func messageOf(code fault.Code, facts platform.Facts) message {
	if m, ok := messages[code.Name]; ok {
		role := cmp.Or(facts.Administrator, "of a full administrator")
		return message{m.Title, strings.ReplaceAll(m.About, "{administrator}", role), strings.ReplaceAll(m.Next, "{administrator}", role)}
	}
	switch code.Kind {
	case fault.NotFound, fault.MethodNotAllowed:
		return message{"There is no such page", "Nothing is at this address.", "Open the link that you were sent, as it is."}
	default:
		return message{
			"This did not work right now",
			"The mail platform or our service did not answer as it should.",
			"Wait a few minutes, then ask for a new link and try again.",
		}
	}
}
