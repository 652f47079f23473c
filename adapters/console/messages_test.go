// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// TestErrorPagesExplainWithoutJargon checks that the error page of each code says what happened and
// what to do next. The page must contain the request id, and no terms of the API.
func TestErrorPagesExplainWithoutJargon(t *testing.T) {
	c := &pages{}
	for _, code := range fault.All() {
		message := messageOf(code, platform.Facts{})
		if message.Title == "" || message.About == "" || message.Next == "" {
			t.Errorf("%s: got %+v, want a title, what happened and what to do next", code.Name, message)
		}
		w := httptest.NewRecorder()
		c.render(w, httptest.NewRequest("GET", "/", nil), 400, "refused", errorPage{message, "req-1", tenants.Origin{}})
		for _, jargon := range []string{"`", "/v1", "Idempotency", "API", "callback"} {
			if page := w.Body.String(); strings.Contains(page, jargon) || !strings.Contains(page, "req-1") {
				t.Errorf("%s: the page contains %q, or does not contain the request id:\n%s", code.Name, jargon, page)
			}
		}
	}
}

// knownPlatform is a platform whose facts are known.
type knownPlatform struct{ known platform.Facts }

func (p knownPlatform) Facts(context.Context) (platform.Facts, error) { return p.known, nil }

// TestLastPagesSayHowToUndoTheConnection checks that the last pages name the application, and say
// whether mail flow rules stay.
func TestLastPagesSayHowToUndoTheConnection(t *testing.T) {
	settings := map[string]string{"application_name": "Acme & mailer", "client_id": "4711-id"}
	c := &pages{Options{
		Facts:   knownPlatform{platform.Facts{Withdrawal: "Delete the application at Acme.", LeftRules: "Open Acme's rules.", ApplicationField: "client_id"}},
		Setting: func(name string) string { return settings[name] },
	}}
	removal := c.removal(httptest.NewRequest("GET", "/", nil))
	for page, wants := range map[string][]string{
		"connected": {"Example GmbH is connected", "Delete the application at Acme.", "<strong>Acme &amp; mailer</strong>", "4711-id", "mail flow rules stay", "Open Acme&#39;s rules.", "<code>" + sendlimit.RulePrefix + "</code>"},
		"cancelled": {"Nothing was connected", "<strong>Acme &amp; mailer</strong>", "4711-id", "no mail flow rules"},
	} {
		w := httptest.NewRecorder()
		c.render(w, httptest.NewRequest("GET", "/", nil), 200, page, endPage{tenant.Tenant{Name: "Example GmbH"}, removal, sendlimit.RulePrefix, tenants.Origin{}})
		for _, want := range wants {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the page %s lacks %q:\n%s", page, want, w.Body.String())
			}
		}
	}
}

// TestPagesNameTheAccountAndLeadBack checks that each page shows the account's display name and
// support contact, and that each page except the confirmation links to the return URL.
func TestPagesNameTheAccountAndLeadBack(t *testing.T) {
	c := &pages{}
	origin := tenants.Origin{DisplayName: "Acme <Mail>", SupportURL: "mailto:help@acme.example", ReturnURL: "https://app.acme.example/done?result=x&session_id=1"}
	for page, data := range map[string]func(tenants.Origin) any{
		"confirm": func(o tenants.Origin) any {
			return confirmPage{tenants.ConfirmationPage{Origin: o}, "/connect/microsoft365/confirm"}
		},
		"connected": func(o tenants.Origin) any { return endPage{Origin: o} },
		"cancelled": func(o tenants.Origin) any { return endPage{Origin: o} },
		"refused": func(o tenants.Origin) any {
			return errorPage{messageOf(fault.ConnectLinkInvalid, platform.Facts{}), "req-1", o}
		},
	} {
		render := func(o tenants.Origin) string {
			w := httptest.NewRecorder()
			c.render(w, httptest.NewRequest("GET", "/", nil), 200, page, data(o))
			return w.Body.String()
		}
		text := render(origin)
		for _, want := range []string{"Acme &lt;Mail&gt;", `href="mailto:help@acme.example"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the page %s lacks %q:\n%s", page, want, text)
			}
		}
		const back = `href="https://app.acme.example/done?result=x&amp;session_id=1"`
		if strings.Contains(text, back) != (page != "confirm") {
			t.Errorf("the page %s has a link back: %v, want %v", page, strings.Contains(text, back), page != "confirm")
		}
		if text := render(tenants.Origin{}); strings.Contains(text, `<p class="back">`) || strings.Contains(text, `class="reference contact"`) {
			t.Errorf("the page %s shows an empty origin:\n%s", page, text)
		}
	}
}
