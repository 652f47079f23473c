// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"errors"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// acme simulates the API of a DNS provider.
type acme struct{ zones *simulate.Zones }

// Call names the operation of a request, for the journal and for planned faults.
func (acme) Call(r *http.Request, _ []byte) simulate.Call {
	return simulate.Call{Operation: "get_zone", Write: r.Method != http.MethodGet, Scope: r.Header.Get("Authorization")}
}

// Fail answers with a planned status in the provider's format.
func (acme) Fail(w http.ResponseWriter, _ *http.Request, status, _ int) {
	simulate.WriteJSON(w, status, map[string]string{"error": http.StatusText(status)})
}

// ServeHTTP answers as the provider's API does.
func (a acme) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	zone, err := a.zones.Get(r.Context(), r.URL.Query().Get("name"))
	if errors.Is(err, simulate.ErrNoZone) {
		a.Fail(w, r, http.StatusNotFound, 0)
		return
	}
	if err != nil {
		a.Fail(w, r, http.StatusInternalServerError, 0)
		return
	}
	simulate.WriteJSON(w, http.StatusOK, zone)
}

// The function newSimulator is a value for the field Simulator of sdk.Plugin. The Kit adds the
// clock, the faults, the journal and the control calls. Zones stores the zones, in the sandbox or
// in a file.
func ExampleOpenZones() {
	newSimulator := func(o simulate.Options) (http.Handler, simulate.Ready, error) {
		kit, err := simulate.Open("acme", o)
		if err != nil {
			return nil, simulate.Ready{}, err
		}
		zones, err := simulate.OpenZones(kit)
		if err != nil {
			return nil, simulate.Ready{}, err
		}
		return kit.Handler(acme{zones}, zones.Control()), simulate.Ready{
			Provider: "acme", URL: o.URL, Settings: map[string]string{"api_url": o.URL}, Secrets: map[string]string{"api_token": "simulated"},
		}, nil
	}
	_ = newSimulator
}
