// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// cloudflareWith is where an API answers as Cloudflare's does to every token,
// with one zone that holds nothing. Its simulator is for what is written.
func cloudflareWith(t *testing.T, zone string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		zones := []object{}
		if name := r.URL.Query().Get("name"); name == "" || name == zone {
			zones = append(zones, object{"id": "0123456789abcdef0123456789abcdef", "name": zone, "status": "active", "type": "full"})
		}
		var result any = []object{}
		switch {
		case strings.HasSuffix(r.URL.Path, "/verify"):
			result = object{"status": "active"}
		case strings.HasSuffix(r.URL.Path, "/zones"):
			result = zones
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object{"success": true, "result": result, "result_info": object{"total_count": len(zones)}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}
