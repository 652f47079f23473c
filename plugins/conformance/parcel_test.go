// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestSendingInProcess puts a small plugin, written as authors do, to every
// fault of a simulator.
func TestSendingInProcess(t *testing.T) {
	conformance.SendingInProcess(t, parcelPlugin(), parcelWorld)
}

func parcelWorld(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
	s := conformance.Simulate(t, openParcel)
	finish := func(t testing.TB, at sdk.SignInSession, state, address string) {
		s.Control(t, http.MethodPost, "/links", parcelLink{ID: at.ID, State: state, Address: address}, nil)
	}
	return contract.SendingWorld{
		Platform: platform(s.Connection(nil, nil)),
		Refused:  platform(s.Connection(nil, map[string]string{"api_key": "guessed-by-somebody"})),
		Absent:   platform(s.Connection(map[string]string{"base_url": conformance.Nowhere(t)}, nil)),
		Secrets:  []string{s.Ready.Secrets["api_key"], "guessed-by-somebody"},
		Can:      []string{sdk.CanOAuth, sdk.CanRefresh, sdk.CanDisconnect},
		Sessions: true, AuthHosts: []string{s.Ready.Settings["auth_hosts"]},
		Looks: []sdk.Account{{State: sdk.AccountConnected}, {State: sdk.AccountFailed, HasError: true}, {State: sdk.AccountOther}},
		Put: func(t testing.TB, accounts ...sdk.Account) {
			states := map[sdk.AccountState]string{sdk.AccountConnected: "ok", sdk.AccountFailed: "bad", sdk.AccountOther: "strange"}
			var all []parcelAccount
			for _, a := range accounts {
				all = append(all, parcelAccount{Address: a.Address, Name: a.Name, State: states[a.State]})
			}
			s.Control(t, http.MethodPut, "/accounts", all, nil)
		},
		Held: func(t testing.TB) (addresses []string) {
			var all []parcelAccount
			s.Control(t, http.MethodGet, "/accounts", nil, &all)
			for _, a := range all {
				addresses = append(addresses, a.Address)
			}
			return addresses
		},
		SignIn:  func(t testing.TB, at sdk.SignInSession, address string) { finish(t, at, "done", address) },
		Decline: func(t testing.TB, at sdk.SignInSession) { finish(t, at, "denied", "") },
		Expire:  func(t testing.TB, at sdk.SignInSession) { finish(t, at, "over", "") },
		Fail:    s.Fail,
	}
}
