// SPDX-License-Identifier: Apache-2.0

package login

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

// A member of a key that we don't use must not cost anybody the sign-in, nor
// must a key that we can't read.
func TestKeysThatAreDecoratedOrUnreadable(t *testing.T) {
	key := func(member string, value any) map[string]any {
		k := map[string]any{"kty": "RSA", "use": "sig", "kid": "other", "n": number64(oneKey().N.Bytes()), "e": "AQAB"}
		k[member] = value
		return k
	}
	for name, k := range map[string]any{
		"a short x5t": key("x5t", "k1"), "x5t of no text": key("x5t", 7), "x5c of no certificates": key("x5c", []string{"AAAA"}),
		"x5c of no list": key("x5c", "AAAA"), "x5t#S256": key("x5t#S256", "?"), "x5u": key("x5u", "::"), "key_ops": key("key_ops", 1),
		"issuer": key("issuer", publishedURL+"/{tenantid}/v2.0"), "another kind": key("kty", "EC"), "a new kind": key("kty", "ML-DSA"),
		"no modulus": key("n", ""), "no number": key("n", "*"), "a short key": key("n", "AQAB"), "an even exponent": key("e", "AQAA"),
		"a vast exponent": key("e", "AQABAQAB"), "for encryption": key("use", "enc"), "null": nil, "a text": "x", "nothing": map[string]any{},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			d.jwks = []any{k}
			d.issues(nil)
			if err := d.signedIn(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTheSigningKeyMayBeDecorated(t *testing.T) {
	d := newDouble(t)
	d.jwks = []any{map[string]any{
		"kty": "RSA", "kid": "k1", "x5t": "k1", "x5c": "no list", "e": "AQAB", "n": number64(d.key.N.Bytes()) + "==",
	}}
	d.published = newKey()
	d.issues(nil)
	if err := d.signedIn(); err != nil {
		t.Fatal(err)
	}
}

func TestKeysAreReadAgainForOneThatIsNotKnown(t *testing.T) {
	d := newDouble(t)
	h, now := d.host(), time.Now()
	h.Now = func() time.Time { return now }
	d.issues(nil)
	signIn := func(fetched int, want error) {
		t.Helper()
		_, err := h.SignedIn(t.Context(), d.signIn(), secret.New("c0de"))
		if !errors.Is(err, want) || d.fetched != fetched {
			t.Fatalf("got %v after %d reads, want %v after %d", err, d.fetched, want, fetched)
		}
	}
	signIn(1, nil)
	signIn(1, nil)
	d.key, d.keyID = newKey(), "k2" // rotated
	d.published = d.key
	signIn(2, nil)
	d.key, d.keyID = newKey(), "k3" // made up: it signs, and is published nowhere
	for range 3 {
		signIn(2, fault.ConnectLinkInvalid)
	}
	now = now.Add(refetchPause)
	for range 3 {
		signIn(3, fault.ConnectLinkInvalid)
	}
	// What was taken back is not trusted for long.
	d.key, d.keyID = d.published, "k2"
	now = now.Add(keysLife)
	signIn(4, nil)
}

func number64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
