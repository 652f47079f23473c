// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// StartCloudflare starts a server that answers reads like Cloudflare's API, and returns its URL. It
// accepts every token. The account has one zone, without records.
func StartCloudflare(t testing.TB, zone string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zones := []map[string]any{}
		if name := r.URL.Query().Get("name"); name == "" || name == zone {
			zones = append(zones, map[string]any{"id": "0123456789abcdef0123456789abcdef", "name": zone, "status": "active", "type": "full"})
		}
		var result any = []map[string]any{}
		switch {
		case strings.HasSuffix(r.URL.Path, "/verify"):
			result = map[string]any{"status": "active"}
		case strings.HasSuffix(r.URL.Path, "/zones"):
			result = zones
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "result": result, "result_info": map[string]any{"total_count": len(zones)}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}
