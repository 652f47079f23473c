// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

// newWorld is the simulator as the suite wants it.
func newWorld(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingPlace {
	s := conformance.Simulate(t, simulator.New)
	with := func(instance, token string) sdk.SendingPlatform {
		return platform(s.Connection(map[string]string{"instance_url": instance}, map[string]string{"api_key": token}))
	}
	return conformance.SendingPlace{
		Platform: platform(s.Connection(nil, nil)),
		Refused:  with(s.URL, "9|guessed"),
		Absent:   with(conformance.Nowhere(t), simulator.Token),
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
			s.Control(t, http.MethodPut, "/tokens", map[string]string{"token": super, "type": "super-admin"}, nil)
			return with(s.URL, super)
		},
		Fail: s.Fail,
	}
}

const super = "2|simulatedSuperAdmin"

// TestInProcess runs the port's promises over the code and the simulator.
func TestInProcess(t *testing.T) { conformance.SendingInProcess(t, plugin(), newWorld) }
