// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
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

// TestRecordsHaveNoEncodedSecret redacts a secret in the forms that requests and answers can
// contain.
func TestRecordsHaveNoEncodedSecret(t *testing.T) {
	const value = "p@ss w/\"ö\"+<&\n\\~ÿ😀"
	recorder := &exchange{secrets: map[string]string{}}
	recorder.addSecrets(map[string]string{"password": value})
	jsonText, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"a query":                         url.QueryEscape(value),
		"a query, in lower case":          strings.ToLower(url.QueryEscape(value)), // the value has no capital letters
		"a path":                          url.PathEscape(value),
		"a URL that leaves out a few":     strings.NewReplacer("%2F", "/", "%40", "@").Replace(url.QueryEscape(value)),
		"JSON of Go":                      strings.Trim(string(jsonText), `"`),
		"JSON without escaped characters": `p@ss w/\"ö\"+<&\n\\~ÿ😀`,
		"JSON in ASCII":                   `p@ss w\/\"\u00f6\"+<&\n\\~\u00FF\ud83d\ude00`,
	} {
		if got := recorder.redact("x " + form + " x"); got != "x [redacted] x" {
			t.Errorf("in %s: the record is %q", name, got)
		}
	}
	for _, user := range []string{"", "u:", "us:", "user:"} { // the secret begins at each of the three offsets
		for name, encoding := range map[string]*base64.Encoding{"standard": base64.StdEncoding, "raw": base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte(user + value + "!"))
			for _, form := range []string{encoded, url.QueryEscape(encoded)} {
				got := recorder.redact("Basic " + form)
				if secretPart := form[len(form)/2-6 : len(form)/2+6]; strings.Contains(got, secretPart) || !strings.Contains(got, "[redacted]") {
					t.Errorf("%s base64 after %q: the record is %q, which contains %q", name, user, got, secretPart)
				}
			}
		}
	}
	if got := recorder.redact("p%40ss is not the secret"); got != "p%40ss is not the secret" {
		t.Errorf("a different text became %q", got)
	}
}
