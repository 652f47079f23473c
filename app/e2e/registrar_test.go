// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheAPITakesNoRegistrarCredential: no body has a member that a DNS
// provider's plugin asks of an account, what is about DNS takes no body at all,
// and there is no route for connections.
func TestTheAPITakesNoRegistrarCredential(t *testing.T) {
	t.Parallel()
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	var doc object
	if err := json.Unmarshal(d.raw, &doc); err != nil {
		t.Fatal(err)
	}
	asked, bodies := accountFields(t), 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			body := operation.(map[string]any)["requestBody"]
			if body == nil {
				continue
			}
			bodies++
			names := members(doc, body)
			if path == "/v1/integrations" { // takes a key of a sending platform, as is tried below
				names = slices.DeleteFunc(names, func(name string) bool { return name == "api_key" })
			}
			if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(asked, name) }) || strings.Contains(path, "/dns/") && len(names) > 0 {
				t.Errorf("%s %s takes %v", method, path, names)
			}
		}
	}
	if bodies < 2 || len(asked) < 8 {
		t.Errorf("%d bodies, fields %v: that proves little", bodies, asked)
	}
	c := common(t)
	for _, provider := range []string{"cloudflare", "powerdns", "rfc2136"} {
		c.expect("POST", "/v1/integrations", object{"provider": provider, "name": "x", "api_key": "x"}, 400, "unknown_provider")
	}
	for _, path := range []string{"/v1/dns-connections", "/v1/dns/connections", "/v1/domains/x/dns/connections"} {
		got := c.do("POST", c.ready.APIURL+path, c.key, object{"provider": "cloudflare", "api_token": "x"})
		if got.status != http.StatusNotFound || got.text("code") != "route_not_found" {
			t.Errorf("POST %s: %d %s", path, got.status, got.raw)
		}
	}
}

// accountFields are the names of all fields that the DNS plugins ask of
// accounts.
func accountFields(t *testing.T) (names []string) {
	t.Helper()
	plugins, err := filepath.Glob(filepath.Join(binary(t, release).folder, "plugins", "dns-*"))
	if err != nil || len(plugins) < 3 {
		t.Fatal(plugins, err)
	}
	for _, plugin := range plugins {
		raw, err := exec.Command(plugin, "describe").Output()
		if err != nil {
			t.Fatal(err)
		}
		var about struct {
			Fields []struct {
				Name    string
				Account bool
			}
		}
		if err := json.Unmarshal(raw, &about); err != nil {
			t.Fatal(err)
		}
		for _, field := range about.Fields {
			if field.Account {
				names = append(names, field.Name)
			}
		}
	}
	return names
}

// members are the names of all members at any depth of what a part of the
// document describes.
func members(doc object, part any) (names []string) {
	switch part := part.(type) {
	case []any:
		for _, one := range part {
			names = append(names, members(doc, one)...)
		}
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			schema := strings.TrimPrefix(ref, "#/components/schemas/")
			return members(doc, doc["components"].(map[string]any)["schemas"].(map[string]any)[schema])
		}
		for name, one := range part {
			if properties, ok := one.(map[string]any); ok && name == "properties" {
				for member := range properties {
					names = append(names, member)
				}
			}
			names = append(names, members(doc, one)...)
		}
	}
	return names
}
