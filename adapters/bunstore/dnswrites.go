// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/ident"
)

type dnsWriteRow struct {
	bun.BaseModel `bun:"table:dns_writes,alias:dw"`

	AccountID  string `bun:",pk"`
	DomainID   string `bun:",pk"`
	Purpose    string `bun:",pk"`
	Name       string `bun:",pk"`
	RecordType string `bun:",pk"`
	ValueHash  []byte `bun:",pk"`
	Value      []byte
	Replaced   []byte
	WrittenAt  time.Time
}

func newDNSWriteRow(owner, domainID string, w dns.Written, now time.Time) dnsWriteRow {
	hash := sha256.Sum256([]byte(w.Value))
	return dnsWriteRow{
		AccountID: owner, DomainID: domainID, Purpose: text(string(w.Purpose)), Name: text(w.Name), RecordType: text(string(w.Type)),
		ValueHash: hash[:], Value: []byte(w.Value), Replaced: []byte(w.Replaced), WrittenAt: now,
	}
}

func (r dnsWriteRow) same(o dnsWriteRow) bool {
	return r.Purpose == o.Purpose && r.Name == o.Name && r.RecordType == o.RecordType && string(r.ValueHash) == string(o.ValueHash)
}

// Written implements ports.DNSWrites.
func (s *Store) Written(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Written, error) {
	var rows []dnsWriteRow
	err := s.run(ctx, "list DNS writes", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("dw.account_id = ?", account(owner)).Where("dw.domain_id = ?", ident.Lookup(domainID)).
			Order("dw.written_at", "dw.purpose", "dw.name", "dw.record_type", "dw.value_hash").Scan(ctx)
	})
	all := make([]dns.Written, 0, len(rows))
	for _, r := range rows {
		all = append(all, dns.Written{
			Purpose: dns.Purpose(r.Purpose), Name: r.Name, Type: dns.Type(r.RecordType), Value: string(r.Value), Replaced: string(r.Replaced),
		})
	}
	return all, err
}

// SaveWritten implements ports.DNSWrites.
func (s *Store) SaveWritten(ctx context.Context, owner access.AccountID, domainID string, written []dns.Written) error {
	var rows []dnsWriteRow
	now := micro(time.Now())
	for _, w := range written {
		row := newDNSWriteRow(account(owner), ident.Lookup(domainID), w, now)
		// One statement must not meet a row twice; the later one counts.
		rows = append(slices.DeleteFunc(rows, row.same), row)
	}
	if len(rows) == 0 {
		return nil
	}
	err := s.run(ctx, "save DNS writes", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewInsert().Model(&rows).
			On("CONFLICT (account_id, domain_id, purpose, name, record_type, value_hash) DO UPDATE").
			Set("replaced = EXCLUDED.replaced").Set("written_at = EXCLUDED.written_at").Exec(ctx)
		return err
	})
	if errors.Is(err, errNoParent) {
		return noDomain()
	}
	return err
}
