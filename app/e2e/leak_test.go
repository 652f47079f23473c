// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// leaks looks for secrets in data, in every form that text takes on its way
// into a log, a database or a trace, and names those it finds.
func leaks(data []byte, secrets map[string]string) (found []string) {
	for name, secret := range secrets {
		for form, needle := range forms(secret) {
			if bytes.Contains(data, needle) {
				found = append(found, name+" "+form)
			}
		}
	}
	for at := bytes.Index(data, gzipMagic); at >= 0; {
		for _, inside := range leaks(unpacked(data[at:]), secrets) {
			found = append(found, inside+" in gzip")
		}
		next := bytes.Index(data[at+1:], gzipMagic)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return found
}

var gzipMagic = []byte{0x1f, 0x8b, 8}

// unpacked is what a gzip stream holds, as far as it can be read.
func unpacked(data []byte) []byte {
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	packed.Multistream(false)
	plain, _ := io.ReadAll(io.LimitReader(packed, 16<<20))
	return plain
}

// forms are the spellings of a secret.
func forms(secret string) map[string][]byte {
	out := map[string][]byte{
		"as it is": []byte(secret), "as hex": []byte(hex.EncodeToString([]byte(secret))),
		"as upper-case hex": []byte(strings.ToUpper(hex.EncodeToString([]byte(secret)))),
		"in a query":        []byte(url.QueryEscape(secret)), "in a path": []byte(url.PathEscape(secret)),
		"percent-encoded": []byte(percent(secret, "%%%02X")), "percent-encoded in lower case": []byte(percent(secret, "%%%02x")),
		"in HTML": []byte(html.EscapeString(secret)), "quoted": []byte(strings.Trim(strconv.Quote(secret), `"`)),
		"in JSON": spelled(secret, false), "in careful JSON": spelled(secret, true),
	}
	for offset := range 3 {
		padded := append(make([]byte, offset), secret...)
		for kind, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := encoding.EncodeToString(padded)[[]int{0, 2, 3}[offset]:] // what the padding is mixed into goes
			if len(padded)%3 != 0 {
				text = text[:len(text)-1] // as what follows in the data is mixed in here
			}
			out[fmt.Sprintf("as %s at %d", kind, offset)] = []byte(text)
		}
	}
	return out
}

func percent(secret, format string) string {
	var b strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

func spelled(secret string, escaped bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escaped)
	_ = e.Encode(secret)
	return bytes.Trim(bytes.TrimSpace(b.Bytes()), `"`)
}

// TestPlantedLeaksAreFound: the canary tests are worth what this search is.
func TestPlantedLeaksAreFound(t *testing.T) {
	secret := `Aa7&"<%/+ ` + rand.Text()
	secrets := map[string]string{"password": secret}
	noise := func(n int) []byte {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		return b
	}
	if found := leaks(noise(1<<16), secrets); len(found) > 0 {
		t.Fatalf("found in noise: %v", found)
	}
	planted := map[string]string{
		"clear": secret, "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "html": html.EscapeString(secret),
		"json": string(spelled(secret, true)), "plain json": string(spelled(secret, false)), "quoted": fmt.Sprintf("%q", secret),
	}
	for before := range 4 {
		for after := range 4 {
			text := append(append(noise(before), secret...), noise(after)...)
			planted[fmt.Sprintf("base64 %d %d", before, after)] = base64.StdEncoding.EncodeToString(text)
			planted[fmt.Sprintf("base64url %d %d", before, after)] = base64.RawURLEncoding.EncodeToString(text)
		}
	}
	for form, text := range planted {
		around := func(b []byte) []byte { return bytes.Join([][]byte{noise(100), b, noise(100)}, nil) }
		if len(leaks(around([]byte(text)), secrets)) == 0 {
			t.Errorf("not found: %s", form)
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(around([]byte(text)))
		_ = w.Close()
		if len(leaks(around(packed.Bytes()), secrets)) == 0 {
			t.Errorf("not found in gzip: %s", form)
		}
	}
}
