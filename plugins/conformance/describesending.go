// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/wire"
)

var (
	sendingCan        = []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect}
	sendingOperations = []string{"check", "account", "accounts", "start_sign_in", "sign_in", "remove"}
)

// checkSending looks for what the host needs to know of a sending platform.
func checkSending(t testing.TB, d sdk.Description) {
	t.Helper()
	if d.Kind != wire.KindSending {
		t.Errorf("the kind is %q", d.Kind)
	}
	field := func(name string) (sdk.Field, bool) {
		at := slices.IndexFunc(d.Fields, func(f sdk.Field) bool { return f.Name == name })
		if at < 0 {
			return sdk.Field{}, false
		}
		return d.Fields[at], true
	}
	if f, ok := field("api_key"); !ok || !f.Account || !f.Secret || !f.Required {
		t.Error("there is no field api_key of the account, secret and required")
	}
	if f, ok := field("workspace_id"); !ok || !f.Account || f.Secret || f.Required {
		t.Error("there is no setting workspace_id of the account")
	}
	if f, ok := field(wire.AuthHosts); slices.Contains(d.Capabilities, sdk.CanOAuth) && (!ok || f.Account || f.Default == "") {
		t.Errorf("there is no setting %s of the operator with a default", wire.AuthHosts)
	}
	for _, capability := range d.Capabilities {
		if !slices.Contains(sendingCan, capability) {
			t.Errorf("capability %q is none of %v", capability, sendingCan)
		}
	}
	for capability, names := range d.Needs {
		if !slices.Contains(d.Capabilities, capability) {
			t.Errorf("capability %q has needs and is not listed", capability)
		}
		for _, name := range names {
			if _, ok := field(name); !ok {
				t.Errorf("capability %q needs %q, which is no field", capability, name)
			}
		}
	}
	if d.FaultDomain != "" && d.FaultDomain != wire.FaultCredential {
		t.Errorf("fault domain %q is none", d.FaultDomain)
	}
	checkSendingBudgets(t, d.Budgets)
}

func checkSendingBudgets(t testing.TB, budgets []sdk.Budget) {
	t.Helper()
	for _, b := range budgets {
		if b.Key != "credential" && b.Key != "egress" {
			t.Errorf("budget %+v: nothing is counted by %q", b, b.Key)
		}
		named := slices.Clone(b.Only)
		for operation := range b.Costs {
			named = append(named, operation)
		}
		for _, operation := range named {
			if !slices.Contains(sendingOperations, operation) {
				t.Errorf("budget %+v: %q is none of %v", b, operation, sendingOperations)
			}
		}
	}
}
