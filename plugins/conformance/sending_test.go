// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
)

// TestSendingDescriptionProblemsAreReported checks a valid description, and descriptions with one
// mistake each.
func TestSendingDescriptionProblemsAreReported(t *testing.T) {
	valid := func() sdk.Description {
		return sdk.Description{
			Name: "parcel", Kind: "sending", Capabilities: []string{sdk.CanOAuth},
			Fields: []sdk.Field{
				{Name: "api_key", Account: true, Secret: true, Required: true}, {Name: "workspace_id", Account: true},
				{Name: "partner", Account: true}, {Name: "auth_hosts", Default: "login.example"},
			},
			Budgets: []sdk.Budget{{Key: "egress", Limit: 5, Window: time.Minute, Only: []string{"start_sign_in"}, Costs: map[string]int{"check": 2}}},
		}
	}
	for want, change := range map[string]func(*sdk.Description){
		"":                               func(*sdk.Description) {},
		"the kind is":                    func(description *sdk.Description) { description.Kind = "dns" },
		"no account field api_key":       func(description *sdk.Description) { description.Fields[0].Secret = false },
		"account setting workspace_id":   func(description *sdk.Description) { description.Fields[1].Account = false },
		"no operator setting auth_hosts": func(description *sdk.Description) { description.Fields[3].Default = "" },
		"that is secret and required":    func(description *sdk.Description) { description.Fields[0].Required = false },
		"no optional account setting":    func(description *sdk.Description) { description.Fields = slices.Delete(description.Fields, 1, 2) },
		"auth_hosts with a default":      func(description *sdk.Description) { description.Fields[3].Account = true },
	} {
		description := valid()
		change(&description)
		recorder := &failureRecorder{TB: t}
		checkSendingDescription(recorder, description)
		if messages := strings.Join(recorder.messages, "\n"); (want == "") != (messages == "") || !strings.Contains(messages, want) {
			t.Errorf("the suite reports %q, want %q", messages, want)
		}
	}
}

// TestExpandReplacesWords checks texts that begin or end with a character that JSON escapes. It
// also checks a word whose value contains a different word, and a word with which a longer word
// begins.
func TestExpandReplacesWords(t *testing.T) {
	words := map[string]any{"$name": `"Ann" $first "B" \`, "$first": `"Ann"`, "$names": []string{"a", "b"}, "$third": "2"}
	for text, wantText := range map[string]any{
		"$name":                `"Ann" $first "B" \`,
		"the name $name":       `the name "Ann" $first "B" \`,
		`"$first"`:             `""Ann""`,
		"$names":               []any{"a", "b"},
		`"$names`:              `"$names`,
		`$names"`:              `$names"`,
		"$third of $names":     "2 of $names",
		"<&> without a word":   "<&> without a word",
		`"begins with a quote`: `"begins with a quote`,
	} {
		for range 20 { // words is a map, so expand can see the words in any order
			got := expand(t, simulate.SuiteCall{Method: "PUT", Body: map[string]any{"text": text, "count": 7}}, words)
			if want := (simulate.SuiteCall{Method: "PUT", Body: map[string]any{"text": wantText, "count": 7.0}}); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: got %v, want %v", text, got, want)
			}
		}
	}
}

// TestBudgetProblemsAreReported checks valid and invalid budgets of each kind of plugin.
func TestBudgetProblemsAreReported(t *testing.T) {
	for _, tc := range []struct {
		kind   wire.Kind
		budget sdk.Budget
		want   string
	}{
		{"dns", sdk.Budget{Key: "credential", Limit: 5, Window: time.Minute, Only: []string{"apply"}, Costs: map[string]int{"check": 5}}, ""},
		{"mail", sdk.Budget{Key: "tenant", Limit: 5, Window: time.Minute, Only: []string{"create_mailbox", "enable_smtp_auth"}}, ""},
		{"sending", sdk.Budget{Key: "egress", Limit: 5, Window: time.Minute, Only: []string{"start_sign_in"}}, ""},
		{"dns", sdk.Budget{Key: "tenant", Limit: 5, Window: time.Minute}, "the key must be one of credential, egress"},
		{"dns", sdk.Budget{Key: "egress", Window: time.Minute}, "has no limit or window"},
		{"dns", sdk.Budget{Key: "egress", Limit: 5, Window: time.Minute, Costs: map[string]int{"apply": 6}}, "the cost of apply must be between 1 and the limit"},
		{"dns", sdk.Budget{Key: "egress", Limit: 100, Window: time.Minute, Costs: map[string]int{"apply": 100}}, ""},
		{"dns", sdk.Budget{Key: "egress", Limit: 5000, Window: time.Minute, Costs: map[string]int{"apply": 101}}, "the host counts a call of apply as at most 100 requests"},
		{"dns", sdk.Budget{Key: "egress", Limit: 5, Window: time.Minute, Costs: map[string]int{"write": 1}}, `"write" is not one of check, zone, records, apply`},
		{"mail", sdk.Budget{Key: "egress", Limit: 5, Window: time.Minute, Only: []string{"apply"}}, `"apply" is not one of`},
		{"sending", sdk.Budget{Key: "egress", Limit: 5, Window: time.Minute, Only: []string{"init"}}, `"init" is not one of`},
	} {
		recorder := &failureRecorder{TB: t}
		checkBudgets(recorder, sdk.Description{Kind: tc.kind, Budgets: []sdk.Budget{tc.budget}})
		if messages := strings.Join(recorder.messages, "\n"); (tc.want == "") != (messages == "") || !strings.Contains(messages, tc.want) {
			t.Errorf("%s %+v: the suite reports %q, want %q", tc.kind, tc.budget, messages, tc.want)
		}
	}
}

// TestProtocolPageListsCausesAndStates checks that docs/plugin-protocol.md lists the causes of
// outcomes that have a fixed meaning, the states that an answer can have, and the capabilities of
// DNS and sending plugins.
func TestProtocolPageListsCausesAndStates(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugin-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"private_address", outcome.CauseConnectionCut, outcome.CauseSetting}
	for _, err := range []error{dns.ChangedError(), dns.NoZoneError(), dns.OverlappedError(), sdk.PlanInactive(), sdk.AnswerTooLarge()} {
		var classified *outcome.Error
		if !errors.As(err, &classified) {
			t.Fatalf("%v has no cause", err)
		}
		words = append(words, classified.Cause)
	}
	for _, values := range []any{
		[]tenant.Bootstrap{tenant.BootstrapPending, tenant.BootstrapReady, tenant.BootstrapFailed},
		[]tenant.BootstrapStep{tenant.StepWait, tenant.StepGrantRole, tenant.StepReconnect, tenant.StepNoExchange},
		[]tenant.SMTPAuth{tenant.SMTPAuthUnknown, tenant.SMTPAuthEnabled, tenant.SMTPAuthDisabled, tenant.SMTPAuthRefused},
		[]integration.SignInState{integration.SignInPending, integration.SignInSucceeded, integration.SignInFailed, integration.SignInExpired},
		[]integration.AccountState{integration.AccountConnected, integration.AccountPending, integration.AccountFailed, integration.AccountOther},
		capabilities[wire.KindDNS],
		capabilities[wire.KindSending],
	} {
		for _, value := range reflect.ValueOf(values).Seq2() {
			words = append(words, value.String())
		}
	}
	for _, word := range words {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("the page does not contain %q in backquotes", word)
		}
	}
}

// TestPluginsPageExplainsEveryField checks that docs/plugins.md names every field of the types
// Description, Field and Budget, and every operation of a sending platform. The page must also name
// some settings, budget keys and a capability that have a fixed meaning.
func TestPluginsPageExplainsEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	names := append(wire.Operations(wire.KindSending), capabilities[wire.KindSending][0], "api_key", "workspace_id", "base_url", "auth_hosts", "credential", "egress")
	for _, value := range []any{sdk.Description{}, sdk.Field{}, sdk.Budget{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			names = append(names, f.Name)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), `"`+name+`"`) {
			t.Errorf("the page does not name %s", name)
		}
	}
}
