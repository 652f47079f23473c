// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

func TestDescriptionsOfSendingPlatforms(t *testing.T) {
	good := func() sdk.Description {
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
	for says, spoil := range map[string]func(*sdk.Description){
		"":                         func(*sdk.Description) {},
		"the kind is":              func(d *sdk.Description) { d.Kind = "dns" },
		"no field api_key":         func(d *sdk.Description) { d.Fields[0].Secret = false },
		"no setting workspace_id":  func(d *sdk.Description) { d.Fields[1].Account = false },
		"no setting auth_hosts":    func(d *sdk.Description) { d.Fields[3].Default = "" },
		"is none of":               func(d *sdk.Description) { d.Capabilities = append(d.Capabilities, "mailbox_warmup") },
		"is not listed":            func(d *sdk.Description) { d.Needs[sdk.CanRefresh] = nil },
		"which is no field":        func(d *sdk.Description) { d.Needs[sdk.CanOAuth] = []string{"password"} },
		"fault domain":             func(d *sdk.Description) { d.FaultDomain = "tenant" },
		"nothing is counted by":    func(d *sdk.Description) { d.Budgets[0].Key = "tenant" },
		`"init" is none of`:        func(d *sdk.Description) { d.Budgets[0].Only = []string{"init"} },
		`"apply" is none of`:       func(d *sdk.Description) { d.Budgets[0].Costs = map[string]int{"apply": 1} },
		"secret and required":      func(d *sdk.Description) { d.Fields[0].Required = false },
		"of the account":           func(d *sdk.Description) { d.Fields = slices.Delete(d.Fields, 1, 2) },
		"of the operator with a d": func(d *sdk.Description) { d.Fields[3].Account = true },
	} {
		d := good()
		spoil(&d)
		r := &recorder{TB: t}
		checkSending(r, d)
		if all := strings.Join(r.said, "\n"); (says == "") != (all == "") || !strings.Contains(all, says) {
			t.Errorf("%q: the suite says %q", says, all)
		}
	}
}
