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
// what to do next. Each page must contain the request id, and no term that only API clients know.
func TestErrorPagesExplainWithoutJargon(t *testing.T) {
	c := &pages{}
	for _, code := range fault.All() {
		message := messageOf(code, platform.Facts{})
		if message.Title == "" || message.About == "" || message.Next == "" {
			t.Errorf("%s: got %+v, want a title, what happened and what to do next", code.Name, message)
		}
		html := renderedPage(c, "refused", errorPage{message, "req-1", tenants.Origin{}})
		if !strings.Contains(html, "req-1") {
			t.Errorf("%s: the page lacks the request id req-1:\n%s", code.Name, html)
		}
		for _, jargon := range []string{"`", "/v1", "Idempotency", "API", "callback"} {
			if strings.Contains(html, jargon) {
				t.Errorf("%s: the page contains %q, want no such term:\n%s", code.Name, jargon, html)
			}
		}
	}
}

// renderedPage returns the HTML of a page.
func renderedPage(c *pages, page string, data any) string {
	response := httptest.NewRecorder()
	c.render(response, httptest.NewRequest("GET", "/", nil), 200, page, data)
	return response.Body.String()
}

// fixedFacts returns the same facts about the mail platform in each call.
type fixedFacts struct{ facts platform.Facts }

func (f fixedFacts) Facts(context.Context) (platform.Facts, error) { return f.facts, nil }

// TestLastPagesSayHowToUndoTheConnection checks that the pages "connected" and "cancelled" name the
// application that an administrator can delete, and say whether mail flow rules stay.
func TestLastPagesSayHowToUndoTheConnection(t *testing.T) {
	settings := map[string]string{"application_name": "Acme & mailer", "client_id": "4711-id"}
	c := &pages{Options{
		Facts:   fixedFacts{platform.Facts{Withdrawal: "Delete the application at Acme.", LeftRules: "Open Acme's rules.", ApplicationField: "client_id"}},
		Setting: func(name string) string { return settings[name] },
	}}
	removal := c.removal(httptest.NewRequest("GET", "/", nil))
	for page, wantTexts := range map[string][]string{
		"connected": {"Example GmbH is connected", "Delete the application at Acme.", "<strong>Acme &amp; mailer</strong>", "4711-id", "mail flow rules stay", "Open Acme&#39;s rules.", "<code>" + sendlimit.RulePrefix + "</code>"},
		"cancelled": {"Nothing was connected", "<strong>Acme &amp; mailer</strong>", "4711-id", "no mail flow rules"},
	} {
		html := renderedPage(c, page, endPage{tenant.Tenant{Name: "Example GmbH"}, removal, sendlimit.RulePrefix, tenants.Origin{}})
		for _, want := range wantTexts {
			if !strings.Contains(html, want) {
				t.Errorf("the page %s lacks %q:\n%s", page, want, html)
			}
		}
	}
}

// TestPagesNameTheAccountAndLeadBack checks that each page shows the account's display name and
// support contact. Each page except "confirm" links to the return URL.
func TestPagesNameTheAccountAndLeadBack(t *testing.T) {
	c := &pages{}
	origin := tenants.Origin{DisplayName: "Acme <Mail>", SupportURL: "mailto:help@acme.example", ReturnURL: "https://app.acme.example/done?result=x&session_id=1"}
	for page, dataOf := range map[string]func(tenants.Origin) any{
		"confirm": func(o tenants.Origin) any {
			return confirmPage{tenants.ConfirmationPage{Origin: o}, "/connect/microsoft365/confirm"}
		},
		"connected": func(o tenants.Origin) any { return endPage{Origin: o} },
		"cancelled": func(o tenants.Origin) any { return endPage{Origin: o} },
		"refused": func(o tenants.Origin) any {
			return errorPage{messageOf(fault.ConnectLinkInvalid, platform.Facts{}), "req-1", o}
		},
	} {
		html := renderedPage(c, page, dataOf(origin))
		for _, want := range []string{"Acme &lt;Mail&gt;", `href="mailto:help@acme.example"`} {
			if !strings.Contains(html, want) {
				t.Errorf("the page %s lacks %q:\n%s", page, want, html)
			}
		}
		const returnLink = `href="https://app.acme.example/done?result=x&amp;session_id=1"`
		if got, want := strings.Contains(html, returnLink), page != "confirm"; got != want {
			t.Errorf("the page %s links to the return URL: %v, want %v", page, got, want)
		}
		html = renderedPage(c, page, dataOf(tenants.Origin{}))
		if strings.Contains(html, `<p class="back">`) || strings.Contains(html, `class="reference contact"`) {
			t.Errorf("the page %s of an account without origin has a link back or a contact, want neither:\n%s", page, html)
		}
	}
}
