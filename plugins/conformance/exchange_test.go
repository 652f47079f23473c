// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"
)

// TestRecordsHaveNoPartOfASecret records three texts. In the first, the secret is cut at
// maxShownBytes. In the second, the secret contains a shorter secret. In the third, the secret has
// a line break.
func TestRecordsHaveNoPartOfASecret(t *testing.T) {
	const short, long, key = "s3cret-token", "s3cret-token-of-the-account", "-----BEGIN\nsecret-key\n-----END"
	recorder := &exchange{secrets: map[string]string{}}
	recorder.addSecrets(map[string]string{"short": short, "long": long, "key": key})
	for name, text := range map[string]string{
		"is cut at maxShownBytes":   strings.Repeat("x", maxShownBytes-4) + long,
		"contains a shorter secret": "token " + long + ".",
		"has a line break":          "key " + key + ".",
	} {
		recorder.recordOutput([]byte(text))
		recorded := recorder.records[len(recorder.records)-1]
		for _, part := range []string{"s3cr", "of-the-account", "secret-key"} {
			if strings.Contains(recorded, part) {
				t.Errorf("%s: the record contains the part %q of a secret: %s", name, part, recorded[max(0, len(recorded)-100):])
			}
		}
		if !strings.Contains(recorded, "[redacted]") && name != "is cut at maxShownBytes" {
			t.Errorf("%s: the record is %s, want [redacted] instead of the secret", name, recorded)
		}
	}
}
