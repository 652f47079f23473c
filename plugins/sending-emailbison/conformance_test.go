// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

// newFixture returns the environment of the contract, with the simulator as EmailBison.
func newFixture(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	s := conformance.Simulate(t, simulator.New)
	with := func(instance, token string) sdk.SendingPlatform {
		return newPlatform(s.Connection(map[string]string{"instance_url": instance}, map[string]string{"api_key": token}))
	}
	return conformance.SendingFixture{
		Platform: newPlatform(s.Connection(nil, nil)),
		Refused:  with(s.URL, "9|guessed"),
		Absent:   with(conformance.UnreachableURL(t), simulator.Token),
		Secrets:  []string{simulator.Token},
		Can:      description().Capabilities,
		Looks: []sdk.Account{
			{State: sdk.AccountConnected},
			{State: sdk.AccountFailed, HasError: true, Reason: "disconnected"},
			{State: sdk.AccountOther},
		},
		Put: func(t testing.TB, accounts ...sdk.Account) {
			status := map[sdk.AccountState]string{sdk.AccountConnected: "Connected", sdk.AccountFailed: "Not connected", sdk.AccountOther: "Pending move"}
			for _, a := range accounts {
				doc := map[string]string{"name": a.Name, "status": status[a.State]}
				s.Control(t, http.MethodPut, "/accounts/"+url.PathEscape(a.Address), doc, nil)
			}
		},
		Held: func(t testing.TB) (addresses []string) {
			var all []struct{ Email string }
			s.Control(t, http.MethodGet, "/accounts", nil, &all)
			for _, a := range all {
				addresses = append(addresses, a.Email)
			}
			return addresses
		},
		Reaching: func(t testing.TB, n int) sdk.SendingPlatform {
			all := []map[string]any{}
			for i := range n {
				all = append(all, map[string]any{"id": i + 1, "name": fmt.Sprint("Workspace ", i+1)})
			}
			s.Control(t, http.MethodPut, "/workspaces", all, nil)
			s.Control(t, http.MethodPut, "/tokens", map[string]string{"token": superAdminToken, "type": "super-admin"}, nil)
			return with(s.URL, superAdminToken)
		},
		Fail: s.Fail,
	}
}

// superAdminToken is a token that the tests create with the type super-admin.
const superAdminToken = "2|simulatedSuperAdmin"

// TestContract runs the contract of a sending platform over the plugin's code and the simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestBinary builds the plugin and runs every suite of a sending platform over the binary.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sending-emailbison")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conformance.Sending(t, conformance.Binary{Path: path}, newFixture)
}
