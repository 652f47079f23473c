// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/proto"
)

// Fingerprint tells connections apart without giving their secrets away: the
// SHA-256, in hex, over all settings and secrets. What a provider keeps from
// one call for the next is keyed by it.
func (c Connection) Fingerprint() string {
	h := sha256.New()
	feed(h, "settings", len(c.Settings))
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		feed(h, name, len(c.Settings[name]))
		h.Write([]byte(c.Settings[name]))
	}
	feed(h, "secrets", len(c.Secrets))
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		value := c.Secrets[name].Reveal()
		feed(h, name, len(value))
		h.Write([]byte(value))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// feed writes a name and the length of what follows, so that no two
// connections run together into the same bytes.
func feed(h hash.Hash, name string, length int) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(name)))
	h.Write(size[:])
	h.Write([]byte(name))
	binary.BigEndian.PutUint64(size[:], uint64(length))
	h.Write(size[:])
}

func connectionOut(c Connection) *proto.Connection {
	out := &proto.Connection{Settings: c.Settings, Secrets: make(map[string][]byte, len(c.Secrets))}
	for name, value := range c.Secrets {
		out.Secrets[name] = []byte(value.Reveal())
	}
	return out
}

func connectionIn(c *proto.Connection) Connection {
	in := Connection{
		Settings: maps.Clone(c.GetSettings()),
		Secrets:  make(map[string]secret.Text, len(c.GetSecrets())),
	}
	for name, value := range c.GetSecrets() {
		in.Secrets[name] = secret.New(string(value))
	}
	return in
}
