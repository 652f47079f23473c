// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

const (
	// keySetLifetime is how long the keys are trusted after they were read.
	keySetLifetime = 10 * time.Minute
	// refetchInterval is the minimum time between two reads that an unknown key causes. It limits
	// how many reads an attacker can cause with forged tokens.
	refetchInterval = time.Minute
)

// KeyCache caches the keys that verify ID tokens. It is safe for concurrent use.
type KeyCache struct {
	mu   sync.Mutex
	sets map[string]keySet // keyed by the URL of the key document
}

type keySet struct {
	keys             []signingKey
	readAt           time.Time
	unknownKeyReadAt time.Time // when the keys were last read because of an unknown key
}

type signingKey struct {
	id  string
	key *rsa.PublicKey
}

// withID returns the keys that may have signed a token with this key id. A key without an id may
// have signed any token. Any key may have signed a token without an id.
func (s keySet) withID(id string) []crypto.PublicKey {
	var keys []crypto.PublicKey
	for _, k := range s.keys {
		if id == "" || k.id == "" || k.id == id {
			keys = append(keys, k.key)
		}
	}
	return keys
}

func (k *KeyCache) get(address string) keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets[address]
}

func (k *KeyCache) put(address string, set keySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sets == nil {
		k.sets = map[string]keySet{}
	}
	maps.DeleteFunc(k.sets, func(_ string, oldSet keySet) bool { return set.readAt.Sub(oldSet.readAt) >= keySetLifetime })
	k.sets[address] = set
}

// verificationKeys returns the keys that may have signed a token. It uses the cached keys for
// keySetLifetime. Microsoft rotates keys without notice, so it reads them earlier if the key id of
// the token is unknown, but at most once per refetchInterval.
func (h Host) verificationKeys(ctx context.Context, tenantAuthority authority, token string) (*oidc.StaticKeySet, error) {
	id, now := keyID(token), h.Now()
	set := h.Keys.get(tenantAuthority.KeysURL)
	isFresh := now.Sub(set.readAt) < keySetLifetime
	if found := set.withID(id); isFresh && (len(found) > 0 || now.Sub(set.unknownKeyReadAt) < refetchInterval) {
		return &oidc.StaticKeySet{PublicKeys: found}, nil
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := h.getJSON(ctx, tenantAuthority.KeysURL, "/{tenant}/discovery/v2.0/keys", &document); err != nil {
		return nil, err
	}
	newKeys := keySet{readAt: now, unknownKeyReadAt: set.unknownKeyReadAt}
	if isFresh {
		newKeys.unknownKeyReadAt = now
	}
	for _, raw := range document.Keys {
		if k, ok := parseKey(raw); ok {
			newKeys.keys = append(newKeys.keys, k)
		}
	}
	h.Keys.put(tenantAuthority.KeysURL, newKeys)
	return &oidc.StaticKeySet{PublicKeys: newKeys.withID(id)}, nil
}

// parseKey reads an RSA signing key. It ignores members that it does not need, such as
// certificates. It returns false for a key that is unsafe, unreadable or for a different purpose.
// The caller can then still use the remaining keys.
func parseKey(raw json.RawMessage) (signingKey, bool) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members)
	text := func(name string) string {
		var s string
		_ = json.Unmarshal(members[name], &s)
		return s
	}
	if use := text("use"); text("kty") != "RSA" || (use != "" && use != "sig") {
		return signingKey{}, false
	}
	n, e := decodeNumber(text("n")), decodeNumber(text("e"))
	if n.BitLen() < 2048 || e.BitLen() < 2 || e.BitLen() > 31 || e.Bit(0) == 0 {
		return signingKey{}, false
	}
	return signingKey{text("kid"), &rsa.PublicKey{N: n, E: int(e.Int64())}}, true
}

// decodeNumber decodes a base64url number of a JWK. It returns 0 if text is invalid.
func decodeNumber(text string) *big.Int {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(raw)
}

// keyID returns the key id in the header of a token. The token is not verified yet.
func keyID(token string) string {
	head, _, _ := strings.Cut(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		KeyID string `json:"kid"`
	}
	_ = json.Unmarshal(raw, &header)
	return header.KeyID
}
