// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/dnsconnection"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
)

type dnsConnectionRow struct {
	bun.BaseModel `bun:"table:dns_connections,alias:dc"`

	AccountID    string `bun:",pk"`
	ID           string `bun:",pk"`
	Provider     string
	Name         string
	Credential   []byte // encrypted
	Status       string
	ZonesVisible int
	TestedAt     time.Time
	CreatedAt    time.Time
}

func (r dnsConnectionRow) connection() dnsconnection.Connection {
	return dnsconnection.Connection{
		ID: r.ID, AccountID: access.AccountID(r.AccountID), Provider: r.Provider, Name: r.Name,
		Status: dnsconnection.Status(r.Status), ZonesVisible: r.ZonesVisible, TestedAt: r.TestedAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

func dnsConnectionDetails(r dnsConnectionRow) map[string]string {
	return map[string]string{"connection_id": r.ID, "provider": r.Provider, "name": r.Name}
}

func dnsConnectionNotFound() error {
	return fault.DNSConnectionNotFound.With("there is no DNS connection with this id")
}

// AddDNSConnection implements ports.DNSConnections.
func (s *Store) AddDNSConnection(ctx context.Context, c dnsconnection.Connection, credential []byte) error {
	row := dnsConnectionRow{
		AccountID: accountKey(c.AccountID), ID: c.ID, Provider: storedText(c.Provider), Name: storedText(c.Name), Credential: credential,
		Status: storedText(string(c.Status)), ZonesVisible: c.ZonesVisible, TestedAt: storedTime(c.TestedAt), CreatedAt: storedTime(c.CreatedAt),
	}
	return s.inTransaction(ctx, "add DNS connection", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpenAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, audit.AddDNSConnection, row.AccountID, dnsConnectionDetails(row))
	})
}

// DNSConnections implements ports.DNSConnections.
func (s *Store) DNSConnections(ctx context.Context, owner access.AccountID) ([]dnsconnection.Connection, error) {
	var rows []dnsConnectionRow
	err := s.db.RunRead(ctx, "list DNS connections", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		q := db.NewSelect().Model(&rows).ExcludeColumn("credential").Order("dc.created_at", "dc.id")
		if owner != "" {
			q = q.Where("dc.account_id = ?", accountKey(owner))
		}
		return q.Scan(ctx)
	})
	return convertAll(rows, dnsConnectionRow.connection), err
}

// DNSConnection implements ports.DNSConnections.
func (s *Store) DNSConnection(ctx context.Context, owner access.AccountID, id string) (dnsconnection.Connection, []byte, error) {
	var row dnsConnectionRow
	err := s.db.RunRead(ctx, "find DNS connection", func(ctx context.Context, db bun.IDB) error {
		q := db.NewSelect().Model(&row)
		if owner != "" {
			q = q.Where("dc.account_id = ?", accountKey(owner))
		}
		return orNotFound(q.Where("dc.id = ?", ident.ParseOrZero(id)).Scan(ctx), dnsConnectionNotFound())
	})
	if err != nil {
		return dnsconnection.Connection{}, nil, err
	}
	return row.connection(), row.Credential, nil
}

// SaveDNSConnectionTest implements ports.DNSConnections.
func (s *Store) SaveDNSConnectionTest(ctx context.Context, c dnsconnection.Connection) error {
	return s.inTransaction(ctx, "save test of DNS connection", func(ctx context.Context, tx bun.IDB) error {
		var row dnsConnectionRow
		err := s.db.LockRows(tx.NewSelect().Model(&row).Where("dc.account_id = ?", accountKey(c.AccountID)).
			Where("dc.id = ?", ident.ParseOrZero(c.ID)), "dc").Scan(ctx)
		if err != nil {
			return orNotFound(err, dnsConnectionNotFound())
		}
		if row.TestedAt.After(storedTime(c.TestedAt)) {
			return nil
		}
		_, err = tx.NewUpdate().Model((*dnsConnectionRow)(nil)).
			Set("status = ?", storedText(string(c.Status))).Set("zones_visible = ?", c.ZonesVisible).Set("tested_at = ?", storedTime(c.TestedAt)).
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		return err
	})
}

// RemoveDNSConnection implements ports.DNSConnections.
func (s *Store) RemoveDNSConnection(ctx context.Context, id string) (dnsconnection.Connection, error) {
	var row dnsConnectionRow
	err := s.inTransaction(ctx, "remove DNS connection", func(ctx context.Context, tx bun.IDB) error {
		err := s.db.LockRows(tx.NewSelect().Model(&row).Where("dc.id = ?", ident.ParseOrZero(id)), "dc").Scan(ctx)
		if err != nil {
			return orNotFound(err, dnsConnectionNotFound())
		}
		return s.dropDNSConnection(ctx, tx, row)
	})
	if err != nil {
		return dnsconnection.Connection{}, err
	}
	return row.connection(), nil
}

func (s *Store) dropDNSConnection(ctx context.Context, tx bun.IDB, row dnsConnectionRow) error {
	_, err := tx.NewDelete().Model((*dnsConnectionRow)(nil)).
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
	if err != nil {
		return err
	}
	return s.recordAudit(ctx, tx, audit.RemoveDNSConnection, row.AccountID, dnsConnectionDetails(row))
}

func (s *Store) dropDNSConnections(ctx context.Context, tx bun.IDB, owner string) (int, error) {
	var rows []dnsConnectionRow
	err := tx.NewSelect().Model(&rows).ExcludeColumn("credential").Where("account_id = ?", owner).Order("id").Scan(ctx)
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if err := s.dropDNSConnection(ctx, tx, row); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}
