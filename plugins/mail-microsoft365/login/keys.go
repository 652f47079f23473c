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
	// keysLife is how long a key is trusted after it was last seen.
	keysLife = 10 * time.Minute
	// refetchPause bounds what tokens of made-up keys make us ask for.
	refetchPause = time.Minute
)

// Keys keeps the keys that sign ID tokens.
type Keys struct {
	mu   sync.Mutex
	sets map[string]keySet // by address
}

type keySet struct {
	keys        []signingKey
	at, refetch time.Time // when they were read, and when for an unknown key
}

type signingKey struct {
	id  string
	key *rsa.PublicKey
}

// named returns the keys that a token may mean by an id.
func (s keySet) named(id string) []crypto.PublicKey {
	var out []crypto.PublicKey
	for _, k := range s.keys {
		if id == "" || k.id == "" || k.id == id {
			out = append(out, k.key)
		}
	}
	return out
}

func (k *Keys) kept(address string) keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets[address]
}

func (k *Keys) keep(address string, s keySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sets == nil {
		k.sets = map[string]keySet{}
	}
	maps.DeleteFunc(k.sets, func(_ string, old keySet) bool { return s.at.Sub(old.at) >= keysLife })
	k.sets[address] = s
}

// keys reads the keys that may have signed a token. They rotate without
// notice, so a key that we don't know makes us read them anew.
func (h Host) keys(ctx context.Context, at authority, token string) (*oidc.StaticKeySet, error) {
	id, now := keyID(token), h.Now()
	set := h.Keys.kept(at.Keys)
	known := now.Sub(set.at) < keysLife
	if found := set.named(id); known && (len(found) > 0 || now.Sub(set.refetch) < refetchPause) {
		return &oidc.StaticKeySet{PublicKeys: found}, nil
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := h.fetch(ctx, at.Keys, "/{tenant}/discovery/v2.0/keys", &document); err != nil {
		return nil, err
	}
	fresh := keySet{at: now, refetch: set.refetch}
	if known {
		fresh.refetch = now
	}
	for _, raw := range document.Keys {
		if k, ok := readKey(raw); ok {
			fresh.keys = append(fresh.keys, k)
		}
	}
	h.Keys.keep(at.Keys, fresh)
	return &oidc.StaticKeySet{PublicKeys: fresh.named(id)}, nil
}

// readKey reads one key by the members that make it. What else it carries,
// such as certificates, is decoration, and a key that cannot be read must not
// cost us the others.
func readKey(raw json.RawMessage) (signingKey, bool) {
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
	n, e := number(text("n")), number(text("e"))
	if n.BitLen() < 2048 || e.BitLen() < 2 || e.BitLen() > 31 || e.Bit(0) == 0 {
		return signingKey{}, false
	}
	return signingKey{text("kid"), &rsa.PublicKey{N: n, E: int(e.Int64())}}, true
}

// number reads a number as JWKs write them; 0 when it is none.
func number(text string) *big.Int {
	raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	return new(big.Int).SetBytes(raw)
}

// keyID is the key that a token names, before anything of it is checked.
func keyID(token string) string {
	head, _, _ := strings.Cut(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		KeyID string `json:"kid"`
	}
	_ = json.Unmarshal(raw, &header)
	return header.KeyID
}
