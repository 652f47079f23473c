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

// A key that cannot be read, or a member that is not needed, must not prevent a sign-in.
func TestUnusableKeysDoNotPreventASignIn(t *testing.T) {
	key := func(member string, value any) map[string]any {
		k := map[string]any{"kty": "RSA", "use": "sig", "kid": "other", "n": encodeBase64URL(sharedKey().N.Bytes()), "e": "AQAB"}
		k[member] = value
		return k
	}
	for name, k := range map[string]any{
		"a short x5t": key("x5t", "k1"), "x5t is not text": key("x5t", 7), "x5c has no certificates": key("x5c", []string{"AAAA"}),
		"x5c is not a list": key("x5c", "AAAA"), "x5t#S256": key("x5t#S256", "?"), "x5u": key("x5u", "::"), "key_ops": key("key_ops", 1),
		"issuer": key("issuer", publishedURL+"/{tenantid}/v2.0"), "a different key type": key("kty", "EC"), "an unknown key type": key("kty", "ML-DSA"),
		"no modulus": key("n", ""), "invalid modulus": key("n", "*"), "a short key": key("n", "AQAB"), "an even exponent": key("e", "AQAA"),
		"a large exponent": key("e", "AQABAQAB"), "for encryption": key("use", "enc"), "null": nil, "a string": "x", "an empty object": map[string]any{},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			fake.jwks = []any{k}
			fake.issueIDToken(nil)
			if err := fake.redeemCode(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestUnusedMembersOfTheSigningKeyAreIgnored(t *testing.T) {
	fake := newFakeLogin(t)
	fake.jwks = []any{map[string]any{
		"kty": "RSA", "kid": "k1", "x5t": "k1", "x5c": "no list", "e": "AQAB", "n": encodeBase64URL(fake.key.N.Bytes()) + "==",
	}}
	fake.published = newKey()
	fake.issueIDToken(nil)
	if err := fake.redeemCode(); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedKeysAreNotUsed(t *testing.T) {
	fake := newFakeLogin(t)
	fake.jwks = []any{map[string]any{"kty": "RSA", "kid": "k1", "e": "AQAB!", "n": encodeBase64URL(fake.key.N.Bytes())}}
	fake.published = newKey()
	fake.issueIDToken(nil)
	if err := fake.redeemCode(); !errors.Is(err, fault.ConnectLinkInvalid) {
		t.Fatalf("got %v, want %v", err, fault.ConnectLinkInvalid)
	}
}

func TestKeysAreFetchedAgainForAnUnknownKey(t *testing.T) {
	fake := newFakeLogin(t)
	h, now := fake.host(), time.Now()
	h.Now = func() time.Time { return now }
	fake.issueIDToken(nil)
	expectSignIn := func(wantKeyRequests int, want error) {
		t.Helper()
		_, err := h.RedeemCode(t.Context(), fake.signIn(), secret.New("c0de"))
		if !errors.Is(err, want) || fake.keyRequests != wantKeyRequests {
			t.Fatalf("got %v after %d requests for the keys, want %v after %d", err, fake.keyRequests, want, wantKeyRequests)
		}
	}
	expectSignIn(1, nil)
	expectSignIn(1, nil)
	fake.key, fake.keyID = newKey(), "k2" // the host rotates its key
	fake.published, fake.publishedID = fake.key, "k2"
	expectSignIn(2, nil)
	fake.key, fake.keyID = newKey(), "k3" // a forged key that the host does not publish
	for range 3 {
		expectSignIn(2, fault.ConnectLinkInvalid)
	}
	now = now.Add(refetchInterval)
	for range 3 {
		expectSignIn(3, fault.ConnectLinkInvalid)
	}
	// After keySetLifetime, the keys are read again.
	fake.key, fake.keyID = fake.published, "k2"
	now = now.Add(keySetLifetime)
	expectSignIn(4, nil)
}

func encodeBase64URL(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
