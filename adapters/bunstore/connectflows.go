// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type flowRow struct {
	bun.BaseModel `bun:"table:connect_flows,alias:f"`

	AccountID      string `bun:",pk"`
	StateHash      []byte `bun:",pk"`
	Step           string
	ExpiresAt      time.Time
	Browser        []byte
	Claimed        string
	SignInHash     []byte
	Nonce          string
	Verifier       []byte
	AdminTenant    string
	AdminAddress   string
	AdminName      string
	ProfileName    string
	ProfileBuiltin string
	ProfileDefault string
}

func newFlowRow(f ports.ConnectFlow) flowRow {
	return flowRow{
		AccountID: accountKey(f.Account), StateHash: f.StateHash[:], Step: string(f.Step), ExpiresAt: storedTime(f.ExpiresAt),
		Browser: f.Browser[:], Claimed: storedText(string(f.Claimed)), SignInHash: f.SignInHash[:], Nonce: storedText(f.Nonce), Verifier: f.Verifier,
		AdminTenant: storedText(string(f.Administrator.Tenant)), AdminAddress: storedText(f.Administrator.Address), AdminName: storedText(f.Administrator.Name),
		ProfileName: storedText(f.Profile.Name), ProfileBuiltin: storedText(f.Profile.BuiltinDomain), ProfileDefault: storedText(f.Profile.DefaultDomain),
	}
}

func (r flowRow) flow() ports.ConnectFlow {
	return ports.ConnectFlow{
		StateHash: [32]byte(r.StateHash), Account: access.AccountID(r.AccountID), Step: ports.ConnectStep(r.Step),
		ExpiresAt: r.ExpiresAt.UTC(), Browser: [32]byte(r.Browser), Claimed: tenant.GUID(r.Claimed),
		SignInHash: [32]byte(r.SignInHash), Nonce: r.Nonce, Verifier: r.Verifier,
		Administrator: tenant.Administrator{Tenant: tenant.GUID(r.AdminTenant), Address: r.AdminAddress, Name: r.AdminName},
		Profile:       tenant.Profile{Name: r.ProfileName, BuiltinDomain: r.ProfileBuiltin, DefaultDomain: r.ProfileDefault},
	}
}

func linkInvalid() error {
	return fault.FromStore(fault.ConnectLinkInvalid.With("the connect link is expired, already used or not one of ours"))
}

// TakeFlow implements ports.ConnectFlows. The query names no account, because a browser sends only
// the state. The hash of 256 random bits identifies the row.
//
// Anyone can invent the hash of a flow. A read refuses such a hash, so that no writer waits for it.
func (s *Store) TakeFlow(ctx context.Context, stateHash [32]byte, from, to ports.ConnectStep, now time.Time) (ports.ConnectFlow, error) {
	known := false
	err := s.db.Run(ctx, "find connect flow", func(ctx context.Context, db bun.IDB) (err error) {
		known, err = db.NewSelect().Model((*flowRow)(nil)).Where("state_hash = ?", stateHash[:]).Where("step = ?", string(from)).
			Where("expires_at > ?", storedTime(now)).Exists(ctx)
		return err
	})
	if err == nil && !known {
		err = linkInvalid()
	}
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	var row flowRow
	err = s.db.RunWrite(ctx, "take connect flow", func(ctx context.Context, db bun.IDB) error {
		err := db.NewUpdate().Model(&row).Set("step = ?", string(to)).
			Where("state_hash = ?", stateHash[:]).Where("step = ?", string(from)).
			Where("expires_at > ?", storedTime(now)).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return linkInvalid()
		}
		return err
	})
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	row.Step = string(from)
	return row.flow(), nil
}

// administratorEntry returns the audit entry of an administrator on the connect pages.
func administratorEntry(action audit.Action, address, guid string) audit.Entry {
	return audit.Entry{
		Actor: audit.Actor{Type: audit.Member, ID: address, Name: address}, Action: action, Tenant: tenant.GUID(guid),
		Subject: audit.Subject{Type: string(event.Tenant), ID: guid}, Outcome: audit.Done,
	}
}

// SaveFlow implements ports.ConnectFlows. A flow with an administrator is a sign-in, which gets an
// audit entry.
func (s *Store) SaveFlow(ctx context.Context, f ports.ConnectFlow) error {
	row := newFlowRow(f)
	return s.inTransaction(ctx, "save connect flow", func(ctx context.Context, tx bun.IDB) error {
		res, err := tx.NewUpdate().Model(&row).
			Column("browser", "claimed", "sign_in_hash", "nonce", "verifier", "admin_tenant", "admin_address",
				"admin_name", "profile_name", "profile_builtin", "profile_default").
			Where("account_id = ?", row.AccountID).Where("state_hash = ?", row.StateHash).
			Where("step = ?", row.Step).Exec(ctx)
		if f.Administrator.Address != "" {
			enter(ctx, row.AccountID, administratorEntry(audit.SignIn, row.AdminAddress, row.Claimed))
		}
		return requireRow(res, err, linkInvalid())
	})
}

// DeleteFlows implements ports.ConnectFlows.
func (s *Store) DeleteFlows(ctx context.Context, before time.Time) error {
	return s.db.Run(ctx, "drop connect flows", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*flowRow)(nil)).Where("expires_at < ?", storedTime(before)).Exec(ctx)
		return err
	})
}
