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

// The key document contains two keys. The first key cannot be used, or has an invalid member that
// the plugin does not need. The second key has signed the ID token.
func TestUnusableKeysDoNotPreventASignIn(t *testing.T) {
	keyWith := func(member string, value any) map[string]any {
		key := map[string]any{"kty": "RSA", "use": "sig", "kid": "first", "n": encodeBase64URL(sharedKey().N.Bytes()), "e": "AQAB"}
		key[member] = value
		return key
	}
	for name, firstKey := range map[string]any{
		"a short x5t": keyWith("x5t", "k1"), "x5t is not text": keyWith("x5t", 7), "x5c has no certificates": keyWith("x5c", []string{"AAAA"}),
		"x5c is not a list": keyWith("x5c", "AAAA"), "x5t#S256": keyWith("x5t#S256", "?"), "x5u": keyWith("x5u", "::"), "key_ops": keyWith("key_ops", 1),
		"issuer": keyWith("issuer", publishedURL+"/{tenantid}/v2.0"), "a different key type": keyWith("kty", "EC"), "an unknown key type": keyWith("kty", "ML-DSA"),
		"no modulus": keyWith("n", ""), "invalid modulus": keyWith("n", "*"), "a short key": keyWith("n", "AQAB"), "an even exponent": keyWith("e", "AQAA"),
		"a large exponent": keyWith("e", "AQABAQAB"), "for encryption": keyWith("use", "enc"), "null": nil, "a string": "x", "an empty object": map[string]any{},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			fake.jwks = []any{firstKey}
			fake.issueIDToken(nil)
			if err := fake.redeemCode(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestUnusedMembersOfTheSigningKeyAreIgnored gives the signing key invalid members that the plugin
// does not need. The key that the fake adds to the document is a different key with the same id.
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
	host, now := fake.host(), time.Now()
	host.Now = func() time.Time { return now }
	fake.issueIDToken(nil)
	expectSignIn := func(wantKeyRequests int, want error) {
		t.Helper()
		_, err := host.RedeemCode(t.Context(), fake.signIn(), secret.New("c0de"))
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
	// After keySetLifetime, the plugin reads the keys again although it knows the key id.
	fake.key, fake.keyID = fake.published, "k2"
	now = now.Add(keySetLifetime)
	expectSignIn(4, nil)
}

func encodeBase64URL(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }
