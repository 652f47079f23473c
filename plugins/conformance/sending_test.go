// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestSendingDescriptionProblemsAreReported breaks a valid description in one way at a time and
// expects one message for it.
func TestSendingDescriptionProblemsAreReported(t *testing.T) {
	valid := func() sdk.Description {
		return sdk.Description{
			Name: "parcel", Kind: "sending", Capabilities: []string{sdk.CanOAuth}, Needs: map[string][]string{sdk.CanOAuth: {"partner"}},
			Fields: []sdk.Field{
				{Name: "api_key", Account: true, Secret: true, Required: true}, {Name: "workspace_id", Account: true},
				{Name: "partner", Account: true}, {Name: "auth_hosts", Default: "login.example"},
			},
			Budgets:     []sdk.Budget{{Key: "egress", Limit: 5, Window: time.Minute, Only: []string{"start_sign_in"}, Costs: map[string]int{"check": 2}}},
			FaultDomain: sdk.FaultCredential,
		}
	}
	for want, spoil := range map[string]func(*sdk.Description){
		"":                               func(*sdk.Description) {},
		"the kind is":                    func(d *sdk.Description) { d.Kind = "dns" },
		"no account field api_key":       func(d *sdk.Description) { d.Fields[0].Secret = false },
		"account setting workspace_id":   func(d *sdk.Description) { d.Fields[1].Account = false },
		"no operator setting auth_hosts": func(d *sdk.Description) { d.Fields[3].Default = "" },
		"is not one of":                  func(d *sdk.Description) { d.Capabilities = append(d.Capabilities, "mailbox_warmup") },
		"does not list":                  func(d *sdk.Description) { d.Needs[sdk.CanRefresh] = nil },
		"which is not a field":           func(d *sdk.Description) { d.Needs[sdk.CanOAuth] = []string{"password"} },
		"fault domain":                   func(d *sdk.Description) { d.FaultDomain = "tenant" },
		"is not credential or egress":    func(d *sdk.Description) { d.Budgets[0].Key = "tenant" },
		`"init" is not one of`:           func(d *sdk.Description) { d.Budgets[0].Only = []string{"init"} },
		`"apply" is not one of`:          func(d *sdk.Description) { d.Budgets[0].Costs = map[string]int{"apply": 1} },
		"that is secret and required":    func(d *sdk.Description) { d.Fields[0].Required = false },
		"no optional account setting":    func(d *sdk.Description) { d.Fields = slices.Delete(d.Fields, 1, 2) },
		"auth_hosts with a default":      func(d *sdk.Description) { d.Fields[3].Account = true },
	} {
		d := valid()
		spoil(&d)
		r := &recorder{TB: t}
		checkSending(r, d)
		if all := strings.Join(r.messages, "\n"); (want == "") != (all == "") || !strings.Contains(all, want) {
			t.Errorf("%q: the suite reports %q", want, all)
		}
	}
}

// TestPluginsPageExplainsEveryField checks that docs/plugins.md names every field of a description
// and every operation of a sending platform.
func TestPluginsPageExplainsEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	names := append(append([]string{}, sendingOperations...), sendingCapabilities[0], "api_key", "workspace_id", "base_url", "auth_hosts", "credential", "egress")
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
