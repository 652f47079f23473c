// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/secret"
)

func TestFingerprintTellsConnectionsApart(t *testing.T) {
	text := func(kv ...string) map[string]secret.Text {
		m := map[string]secret.Text{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = secret.New(kv[i+1])
		}
		return m
	}
	seen := map[string]int{}
	for i, c := range []Connection{
		{},
		{Settings: map[string]string{"a": ""}},
		{Settings: map[string]string{"a": "b"}},
		{Settings: map[string]string{"ab": ""}},
		{Settings: map[string]string{"a": "b", "c": "d"}},
		{Settings: map[string]string{"a": "bcd"}},
		{Secrets: text("a", "b")},
		{Secrets: text("a", "c")},
		{Settings: map[string]string{"a": "b"}, Secrets: text("a", "b")},
	} {
		print := c.Fingerprint()
		if other, ok := seen[print]; ok {
			t.Errorf("connections %d and %d have the same fingerprint", other, i)
		}
		seen[print] = i
		if len(print) != 64 || strings.ToLower(print) != print {
			t.Errorf("%q is not a SHA-256 in hex", print)
		}
	}
	one := Connection{Settings: map[string]string{"a": "1", "b": "2", "c": "3"}}
	two := Connection{Settings: map[string]string{"c": "3", "b": "2", "a": "1"}, Secrets: text()}
	if one.Fingerprint() != two.Fingerprint() {
		t.Error("equal connections have different fingerprints")
	}
}
