// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"
)

// TestRecordsHaveNoPartOfASecret records texts with a secret that is cut at maxShownBytes, that
// contains another secret, or that has a line break.
func TestRecordsHaveNoPartOfASecret(t *testing.T) {
	const short, long, key = "s3cret-token", "s3cret-token-of-the-account", "-----BEGIN\nsecret-key\n-----END"
	recorder := &exchange{secrets: map[string]string{}}
	recorder.addSecrets(map[string]string{"short": short, "long": long, "key": key})
	for name, text := range map[string]string{
		"is cut at maxShownBytes": strings.Repeat("x", maxShownBytes-4) + long,
		"contains another secret": "token " + long + ".",
		"has a line break":        "key " + key + ".",
	} {
		recorder.recordOutput([]byte(text))
		recorded := recorder.records[len(recorder.records)-1]
		for _, part := range []string{"s3cr", "of-the-account", "secret-key"} {
			if strings.Contains(recorded, part) {
				t.Errorf("%s: the record contains %q: %s", name, part, recorded[max(0, len(recorded)-100):])
			}
		}
		if !strings.Contains(recorded, "[redacted]") && name != "is cut at maxShownBytes" {
			t.Errorf("%s: nothing was removed from %s", name, recorded)
		}
	}
}
