// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/http"
	"testing"
)

// Answers that are no answers of the provider's.
func TestSpoiledAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		fault, body   string
		status, works int
	}{
		"a proxy's page":             {`{"kind":"html","times":1}`, "<html><body><h1>Attention required</h1></body></html>\n", http.StatusOK, 0},
		"a proxy's page with a 403":  {`{"kind":"html","status":403,"times":1}`, "<html><body><h1>Attention required</h1></body></html>\n", http.StatusForbidden, 0},
		"JSON of another shape":      {`{"kind":"misshape","times":1}`, `{"unexpected":[]}` + "\n", http.StatusOK, 0},
		"half of what would be said": {`{"kind":"truncate","times":1}`, "bre", http.StatusCreated, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, t.TempDir())
			if status, body := r.ask("POST", "/_control/faults", tt.fault); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			if status, body := r.ask("POST", "/bread", "breads"); status != tt.status || body != tt.body || r.shop.works() != tt.works {
				t.Errorf("%d %q after %d works", status, body, r.shop.works())
			}
			if status, _ := r.ask("POST", "/bread", "breads"); status != http.StatusCreated {
				t.Errorf("afterwards %d", status)
			}
		})
	}
	r := open(t, t.TempDir())
	for _, bad := range []string{`{"kind":"html","status":700,"times":1}`, `{"kind":"misshape","status":500,"times":1}`, `{"kind":"html","retry_after":5,"times":1}`} {
		if status, _ := r.ask("POST", "/_control/faults", bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
}
