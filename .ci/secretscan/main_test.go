// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted returns texts in the form of secrets. They are assembled here, so that this file contains
// none.
func planted() map[string]string {
	hex, long := strings.Repeat("0123456789abcdef", 3), strings.Repeat("Ab3_", 12)
	return map[string]string{
		"a live key":             "key: tny_live_" + hex,
		"a trial key":            `"tny_trial_` + hex + `"`,
		"another prefix":         "curl -H 'Authorization: Bearer acme_live_" + hex + "'",
		"a private key":          "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("MIIE", 16),
		"an RSA key":             "-----BEGIN RSA " + "PRIVATE KEY-----\r\n" + strings.Repeat("MIIE", 16),
		"a key in JSON":          `"-----BEGIN EC ` + `PRIVATE KEY-----\n` + strings.Repeat("MIIE", 16),
		"a client secret":        "client_secret: abc8Q~" + long[:34],
		"an older client secret": "abc7Q~" + long[:31],
		"an age identity":        "AGE-SECRET-KEY-" + "1" + strings.Repeat("QPZR", 14) + "QP",
		"a token":                "eyJ" + strings.Repeat("hbGci", 5) + ".eyJ" + strings.Repeat("zdWIi", 5) + "." + long,
	}
}

// TestPlantedSecretsAreFound checks that each secret is found, and that the output does not contain
// it.
func TestPlantedSecretsAreFound(t *testing.T) {
	for name, text := range planted() {
		file := filepath.Join(t.TempDir(), "notes.md")
		if err := os.WriteFile(file, []byte("one\ntwo "+text+"\nthree"), 0o600); err != nil {
			t.Fatal(err)
		}
		var output bytes.Buffer
		found, err := run(strings.NewReader(file+"\x00"), &output)
		if err != nil || found != 1 || !strings.Contains(output.String(), "notes.md:2: looks like ") {
			t.Errorf("%s: found %d secrets, want 1 in line 2; error %v, output:\n%s", name, found, err, output.String())
		}
		for word := range strings.FieldsSeq(text) {
			if len(word) > 20 && strings.Contains(output.String(), word) {
				t.Errorf("%s: the output contains the secret", name)
			}
		}
	}
}

// TestSimilarTextsAreNotReported checks texts that only resemble secrets, such as hashes, and the
// first line of a key file without the key.
func TestSimilarTextsAreNotReported(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 3)
	for _, text := range []string{
		"tny_live_<48 hex>", "tny_live_" + hex[:47], "tny_live_" + hex + "0", "tny_test_" + hex, strings.Repeat(hex, 2),
		"-----BEGIN " + "PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----\n" + strings.Repeat("MIIE", 16), "postgres:///tenantry?host=/run",
	} {
		if hits := scan([]byte(text), false); len(hits) != 0 {
			t.Errorf("%q is reported as a secret: %v", text, hits)
		}
	}
}

// TestOnlyTestFilesMayAllowASecret checks that the comment `secretscan:allow` works only in files
// of tests, and only for its own line.
func TestOnlyTestFilesMayAllowASecret(t *testing.T) {
	line := planted()["a live key"] + " // " + allowComment + "it was revoked\n"
	for name, want := range map[string]int{"a_test.go": 0, "x/testdata/a.txt": 0, "main.go": 1, "testdata.go": 1} {
		if hits := scan([]byte(line), isTestFile(name)); len(hits) != want {
			t.Errorf("%s: got the findings %v, want %d", name, hits, want)
		}
	}
	if hits := scan([]byte(line+planted()["a trial key"]), true); len(hits) != 1 {
		t.Errorf("got the findings %v, want only the one in the line without the comment", hits)
	}
}
