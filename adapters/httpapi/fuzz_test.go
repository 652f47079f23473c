// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"log/slog"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/keys"
)

var goodRequestID = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`)

// FuzzHead: no request id, traceparent, Accept or Authorization brings the
// service down, and only a harmless id comes back.
func FuzzHead(f *testing.F) {
	h := httpapi.New(httpapi.Options{Keys: &keys.Service{Prefix: "tny"}, Log: telemetry.Logger(discard{}, slog.LevelDebug)})
	f.Add("a.B-9_", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "*/*", "Bearer x")
	f.Add("a b", "00-0-0-0", "a/b;q=", "Basic \x00")
	f.Add("x\r\nSet-Cookie: a=b", "\xff", ";;,", "bearer")
	f.Fuzz(func(t *testing.T, id, parent, accept, authorization string) {
		r := httptest.NewRequest("GET", "/v1/tenants", nil)
		for name, value := range map[string]string{"X-Request-Id": id, "Traceparent": parent, "Tracestate": parent, "Accept": accept, "Authorization": authorization, "X-Forwarded-For": parent} {
			r.Header[name] = []string{value}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header().Get("X-Request-Id")
		if good := goodRequestID.MatchString(id); w.Code != 401 && !keyed.MatchString(authorization) || good != (got == id) || !goodRequestID.MatchString(got) {
			t.Errorf("%q is answered %d as %q", id, w.Code, got)
		}
	})
}

// keyed is the form of a key, which alone would be looked up.
var keyed = regexp.MustCompile(`tny_(live|trial)_[0-9a-f]{48}`)

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
