// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/ports"
)

type idempotencyRow struct {
	bun.BaseModel `bun:"table:idempotency_keys,alias:i"`

	AccountID   string `bun:",pk"`
	KeyHash     []byte `bun:",pk"`
	Fingerprint []byte
	Attempt     string
	LeasedUntil int64 // microseconds, see Store.databaseNowSQL
	Answer      []byte
	CreatedAt   time.Time
	ExpiresAt   time.Time
}

// databaseNowSQL returns the SQL expression for the Unix time in microseconds by the clock of the
// database. Leases use this clock, because all replicas share it.
func (s *Store) databaseNowSQL() bun.Safe {
	if database.IsPostgres(s.db) {
		return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	}
	return "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)"
}

// KeyRecord implements ports.Idempotency.
func (s *Store) KeyRecord(ctx context.Context, id idempotency.KeyID) (idempotency.Record, bool, error) {
	var row struct {
		idempotencyRow `bun:",extend"`

		Leased bool
	}
	err := s.db.RunRead(ctx, "read idempotency key", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&row).Column("fingerprint", "attempt", "answer", "expires_at").
			ColumnExpr("leased_until > ? AS leased", s.databaseNowSQL()).
			Where("account_id = ?", accountKey(id.Account)).Where("key_hash = ?", id.Key[:]).Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return idempotency.Record{}, false, nil
	}
	if err != nil {
		return idempotency.Record{}, false, err
	}
	return idempotency.Record{
		Fingerprint: row.Fingerprint, Attempt: row.Attempt, Leased: row.Leased, Answer: row.Answer, ExpiresAt: row.ExpiresAt.UTC(),
	}, true, nil
}

// Claim implements ports.Idempotency.
func (s *Store) Claim(ctx context.Context, c ports.Claim) (string, bool, error) {
	row := idempotencyRow{
		AccountID: accountKey(c.Key.Account), KeyHash: c.Key.Key[:], Fingerprint: c.Fingerprint, Attempt: newID(),
		CreatedAt: storedTime(c.Now), ExpiresAt: storedTime(c.Now.Add(idempotency.Retention)),
	}
	won, err := s.execChanged(ctx, "claim an idempotency key", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return db.NewInsert().Model(&row).Value("leased_until", "? + ?", s.databaseNowSQL(), c.Lease.Microseconds()).
			On("CONFLICT DO NOTHING").Exec(ctx)
	})
	return row.Attempt, won, err
}

// TakeOver implements ports.Idempotency.
func (s *Store) TakeOver(ctx context.Context, previousAttempt string, claim ports.Claim) (string, bool, error) {
	attempt := newID()
	won, err := s.execChanged(ctx, "take an idempotency key over", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return whereAttempt(db.NewUpdate().Model((*idempotencyRow)(nil)), claim.Key, previousAttempt).
			Set("attempt = ?", attempt).Set("fingerprint = ?", claim.Fingerprint).Set("answer = NULL").
			Set("leased_until = ? + ?", s.databaseNowSQL(), claim.Lease.Microseconds()).
			Set("expires_at = ?", storedTime(claim.Now.Add(idempotency.Retention))).
			Where("leased_until <= ?", s.databaseNowSQL()).
			Where("answer IS NULL OR expires_at <= ?", storedTime(claim.Now)).Exec(ctx)
	})
	return attempt, won, err
}

// RenewKeyLease implements ports.Idempotency.
func (s *Store) RenewKeyLease(ctx context.Context, id idempotency.KeyID, attempt string, lease time.Duration) (bool, error) {
	return s.execChanged(ctx, "hold an idempotency key", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return whereAttempt(db.NewUpdate().Model((*idempotencyRow)(nil)), id, attempt).
			Set("leased_until = ? + ?", s.databaseNowSQL(), lease.Microseconds()).Exec(ctx)
	})
}

// Finish implements ports.Idempotency.
func (s *Store) Finish(ctx context.Context, answer ports.StoredAnswer) (bool, error) {
	var isHeld bool
	err := s.inTransaction(ctx, "finish an idempotency key", func(ctx context.Context, tx bun.IDB) error {
		res, err := s.finish(ctx, tx, answer)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if isHeld = n > 0; isHeld {
			endAct(ctx, answer.Outcome)
		}
		return err
	})
	return isHeld, err
}

func (s *Store) finish(ctx context.Context, db bun.IDB, answer ports.StoredAnswer) (sql.Result, error) {
	return whereAttempt(db.NewUpdate().Model((*idempotencyRow)(nil)), answer.Key, answer.Attempt).
		Set("answer = ?", answer.Answer).Set("leased_until = 0").Set("expires_at = ?", storedTime(answer.Until)).Exec(ctx)
}

// storeAnswer stores the answer of a request in the transaction of the request's change. It does
// nothing if storedAnswer is nil. It fails with fault.KeyInProgress if the attempt no longer holds
// the Idempotency-Key.
func (s *Store) storeAnswer(ctx context.Context, tx bun.IDB, storedAnswer *ports.StoredAnswer) error {
	if storedAnswer == nil {
		return nil
	}
	res, err := s.finish(ctx, tx, *storedAnswer)
	err = requireRow(res, err, fault.KeyInProgress.With("a different request has claimed the Idempotency-Key"))
	if err == nil {
		ports.RecordStoredAnswer(ctx)
		endAct(ctx, storedAnswer.Outcome)
	}
	return err
}

// Abandon implements ports.Idempotency.
func (s *Store) Abandon(ctx context.Context, id idempotency.KeyID, attempt string, until time.Time) (bool, error) {
	return s.execChanged(ctx, "abandon an attempt with an idempotency key", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return whereAttempt(db.NewUpdate().Model((*idempotencyRow)(nil)), id, attempt).
			Set("leased_until = 0").Set("expires_at = ?", storedTime(until)).Where("answer IS NULL").Exec(ctx)
	})
}

// Release implements ports.Idempotency.
func (s *Store) Release(ctx context.Context, id idempotency.KeyID, attempt string) (bool, error) {
	return s.execChanged(ctx, "release an idempotency key", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return db.NewDelete().Model((*idempotencyRow)(nil)).
			Where("account_id = ?", accountKey(id.Account)).Where("key_hash = ?", id.Key[:]).
			Where("attempt = ?", attempt).Where("answer IS NULL").Exec(ctx)
	})
}

// Reap implements ports.Idempotency.
func (s *Store) Reap(ctx context.Context, now time.Time, limit int) (int, error) {
	var deleted int64
	err := s.db.RunWrite(ctx, "reap idempotency keys", func(ctx context.Context, db bun.IDB) error {
		expired := db.NewSelect().Model((*idempotencyRow)(nil)).Column("account_id", "key_hash").
			Where("expires_at <= ?", storedTime(now)).Where("leased_until <= ?", s.databaseNowSQL()).Limit(int64(limit))
		res, err := db.NewDelete().Model((*idempotencyRow)(nil)).Where("(account_id, key_hash) IN (?)", expired).
			Where("expires_at <= ?", storedTime(now)).Where("leased_until <= ?", s.databaseNowSQL()).Exec(ctx)
		if err == nil {
			deleted, err = res.RowsAffected()
		}
		return err
	})
	return int(deleted), err
}

// EndLeases expires all leases of Idempotency-Keys, jobs, enforcement passes and deliveries. Call
// it only when a service on SQLite starts. Only one service at a time uses such a database, so
// every process that held a lease has exited by then.
func (s *Store) EndLeases(ctx context.Context) error {
	return s.inTransaction(ctx, "end leases", func(ctx context.Context, tx bun.IDB) error {
		for _, table := range []any{(*idempotencyRow)(nil), (*dnsJobRow)(nil), (*sendTenantRow)(nil), (*deliveryRow)(nil)} {
			if _, err := tx.NewUpdate().Model(table).Set("leased_until = 0").Where("leased_until > 0").Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// whereAttempt restricts an update to a key that no later attempt has taken over.
func whereAttempt(q *bun.UpdateQuery, id idempotency.KeyID, attempt string) *bun.UpdateQuery {
	return q.Where("account_id = ?", accountKey(id.Account)).Where("key_hash = ?", id.Key[:]).Where("attempt = ?", attempt)
}

// execChanged runs a writing statement and reports whether it changed a row.
func (s *Store) execChanged(ctx context.Context, operation string, exec func(ctx context.Context, db bun.IDB) (sql.Result, error)) (bool, error) {
	var n int64
	err := s.db.RunWrite(ctx, operation, func(ctx context.Context, db bun.IDB) error {
		res, err := exec(ctx, db)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n > 0, err
}
