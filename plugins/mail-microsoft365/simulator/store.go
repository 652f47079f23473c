// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// store holds the tenants.
type store struct {
	dir string // has one file for each tenant

	mu      sync.Mutex
	tenants []*simulate.File[tenant]
	// byName is keyed by GUID and by initial domain, both in lower case. The GUID and the initial
	// domain of a tenant never change.
	byName map[string]*simulate.File[tenant]

	// verifyMu serializes verifications, because only one tenant can verify a domain.
	verifyMu sync.Mutex
}

// openStore reads the tenants below dataDir. It fails if a file cannot be read or the folder cannot
// be created.
func openStore(dataDir string) (*store, error) {
	s := &store{dir: filepath.Join(dataDir, "tenants"), byName: map[string]*simulate.File[tenant]{}}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("tenants folder: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths) // the names are serial numbers
	for _, path := range paths {
		if err := s.open(path, tenant{}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// open adds the tenant at path. If the file does not exist, open creates it with the tenant fresh.
func (s *store) open(path string, fresh tenant) error {
	f, err := simulate.OpenFile(path, fresh)
	if err != nil {
		return err
	}
	s.tenants = append(s.tenants, f)
	f.View(func(t *tenant) { s.byName[t.ID], s.byName[t.initialDomain()] = f, f })
	return nil
}

// create adds a tenant. build receives the serial number of the new tenant, starting at 1.
func (s *store) create(build func(serial int) tenant) (tenant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := build(len(s.tenants) + 1)
	return t, s.open(filepath.Join(s.dir, fmt.Sprintf("%06d.json", t.Serial)), t)
}

// all returns the tenants in the order of creation.
func (s *store) all() []*simulate.File[tenant] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tenants)
}

// find returns the tenant with this GUID, initial domain or verified custom domain, or nil.
func (s *store) find(name string) *simulate.File[tenant] {
	name = strings.ToLower(name)
	s.mu.Lock()
	f := s.byName[name]
	s.mu.Unlock()
	if f != nil {
		return f
	}
	return s.tenantWithDomain(name)
}

// tenantWithDomain returns the tenant in which a custom domain is verified, or nil.
func (s *store) tenantWithDomain(domain string) *simulate.File[tenant] {
	for _, f := range s.all() {
		isVerified := false
		f.View(func(t *tenant) {
			d := t.domain(domain)
			isVerified = d != nil && d.Verified
		})
		if isVerified {
			return f
		}
	}
	return nil
}

func digest(parts []string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// guid derives a UUID in the form of version 4 from parts.
func guid(parts ...string) string {
	sum := digest(parts)
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	digits := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("%s-%s-%s-%s-%s", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
}

func newGUID() string { return guid(randomText(16)) }

// deriveDigits derives n decimal digits from parts. n is at most 20.
func deriveDigits(n int, parts ...string) string {
	sum := digest(parts)
	number := fmt.Sprintf("%020d", binary.BigEndian.Uint64(sum[:8]))
	return number[len(number)-n:]
}

// deriveLetter derives one lower-case letter from parts.
func deriveLetter(parts ...string) string {
	sum := digest(parts)
	return string(rune('a' + sum[0]%26))
}

// deriveText derives an opaque text of 43 characters from parts.
func deriveText(parts ...string) string {
	sum := digest(parts)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// randomText returns n random bytes in base64url.
func randomText(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // according to its documentation, it never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}
