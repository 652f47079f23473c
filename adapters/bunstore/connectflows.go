// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type flowRow struct {
	bun.BaseModel `bun:"table:connect_flows,alias:f"`

	AccountID      string `bun:",pk"`
	StateHash      []byte `bun:",pk"`
	Step           string
	ExpiresAt      time.Time
	BrowserHash    []byte `bun:"browser"`
	ClaimedTenant  string `bun:"claimed"`
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
		BrowserHash: f.BrowserHash[:], ClaimedTenant: storedText(string(f.ClaimedTenant)), SignInHash: f.SignInHash[:], Nonce: storedText(f.Nonce), Verifier: f.SealedVerifier,
		AdminTenant: storedText(string(f.Administrator.Tenant)), AdminAddress: storedText(f.Administrator.Address), AdminName: storedText(f.Administrator.Name),
		ProfileName: storedText(f.Profile.Name), ProfileBuiltin: storedText(f.Profile.BuiltinDomain), ProfileDefault: storedText(f.Profile.DefaultDomain),
	}
}

func (r flowRow) flow() ports.ConnectFlow {
	return ports.ConnectFlow{
		StateHash: [32]byte(r.StateHash), Account: access.AccountID(r.AccountID), Step: ports.ConnectStep(r.Step),
		ExpiresAt: r.ExpiresAt.UTC(), BrowserHash: [32]byte(r.BrowserHash), ClaimedTenant: tenant.GUID(r.ClaimedTenant),
		SignInHash: [32]byte(r.SignInHash), Nonce: r.Nonce, SealedVerifier: r.Verifier,
		Administrator: tenant.Administrator{Tenant: tenant.GUID(r.AdminTenant), Address: r.AdminAddress, Name: r.AdminName},
		Profile:       tenant.Profile{Name: r.ProfileName, BuiltinDomain: r.ProfileBuiltin, DefaultDomain: r.ProfileDefault},
	}
}

func linkInvalid() error {
	return fault.FromStore(fault.ConnectLinkInvalid.With("the connect link is expired, already used or unknown"))
}

// TakeFlow implements ports.ConnectFlows. Its queries name no account, because a browser sends only
// the OAuth state and a cookie. The state contains a random token of 256 bits, so the hash of the
// state identifies the row.
//
// Anyone can send an invented state or cookie. TakeFlow therefore first reads whether the flow
// exists, so that such a request causes no write.
func (s *Store) TakeFlow(ctx context.Context, stateHash, browserHash [32]byte, from, to ports.ConnectStep, now time.Time) (ports.ConnectFlow, error) {
	condition := func(q bun.QueryBuilder) bun.QueryBuilder {
		return q.Where("state_hash = ?", stateHash[:]).Where("browser = ?", browserHash[:]).Where("step = ?", string(from)).
			Where("expires_at > ?", storedTime(now))
	}
	exists := false
	err := s.db.RunRead(ctx, "find connect flow", func(ctx context.Context, db bun.IDB) (err error) {
		exists, err = db.NewSelect().Model((*flowRow)(nil)).ApplyQueryBuilder(condition).Exists(ctx)
		return err
	})
	if err == nil && !exists {
		err = linkInvalid()
	}
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	var row flowRow
	err = s.db.RunWrite(ctx, "take connect flow", func(ctx context.Context, db bun.IDB) error {
		err := db.NewUpdate().Model(&row).Set("step = ?", string(to)).ApplyQueryBuilder(condition).Returning("*").Scan(ctx)
		return orNotFound(err, linkInvalid())
	})
	if err != nil {
		return ports.ConnectFlow{}, err
	}
	row.Step = string(from)
	return row.flow(), nil
}

// administratorEntry returns an audit entry whose actor is an administrator on the connect pages.
func administratorEntry(action audit.Action, address, guid string) audit.Entry {
	return audit.Entry{
		Actor: audit.Actor{Type: audit.Member, ID: address, Name: address}, Action: action, Tenant: tenant.GUID(guid),
		Subject: audit.Subject{Type: string(event.Tenant), ID: guid}, Outcome: audit.Succeeded,
	}
}

// SaveFlow implements ports.ConnectFlows. f has an administrator only after the sign-in. SaveFlow
// then adds an audit entry for the sign-in.
func (s *Store) SaveFlow(ctx context.Context, f ports.ConnectFlow) error {
	row := newFlowRow(f)
	return s.inTransaction(ctx, "save connect flow", func(ctx context.Context, tx bun.IDB) error {
		res, err := tx.NewUpdate().Model(&row).
			Column("browser", "claimed", "sign_in_hash", "nonce", "verifier", "admin_tenant", "admin_address",
				"admin_name", "profile_name", "profile_builtin", "profile_default").
			Where("account_id = ?", row.AccountID).Where("state_hash = ?", row.StateHash).
			Where("step = ?", row.Step).Exec(ctx)
		if f.Administrator.Address != "" {
			addEntry(ctx, row.AccountID, administratorEntry(audit.SignIn, row.AdminAddress, row.ClaimedTenant))
		}
		return requireRow(res, err, linkInvalid())
	})
}

// DeleteFlows implements ports.ConnectFlows.
func (s *Store) DeleteFlows(ctx context.Context, before time.Time) error {
	return s.db.RunWrite(ctx, "drop connect flows", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*flowRow)(nil)).Where("expires_at < ?", storedTime(before)).Exec(ctx)
		return err
	})
}

type connectSessionRow struct {
	bun.BaseModel `bun:"table:connect_sessions,alias:cs"`

	AccountID   string `bun:",pk"`
	ID          string `bun:",pk"`
	Status      string
	TenantGUID  string `bun:"tenant_guid"`
	TTLMinutes  int    `bun:"ttl_minutes"`
	ExpiresAt   time.Time
	ReturnURL   string `bun:"return_url"`
	ReturnState string
}

func newConnectSessionRow(owner access.AccountID, cs tenant.ConnectSession) connectSessionRow {
	return connectSessionRow{
		AccountID: accountKey(owner), ID: ident.ParseOrZero(cs.ID), Status: string(cs.Status), TenantGUID: storedText(string(cs.Tenant)),
		TTLMinutes: int(cs.Lifetime / time.Minute), ExpiresAt: storedTime(cs.ExpiresAt), ReturnURL: storedText(cs.ReturnURL), ReturnState: storedText(cs.State),
	}
}

func (r connectSessionRow) session() tenant.ConnectSession {
	return tenant.ConnectSession{
		ID: r.ID, Status: tenant.SessionStatus(r.Status), Tenant: tenant.GUID(r.TenantGUID), Lifetime: time.Duration(r.TTLMinutes) * time.Minute,
		ExpiresAt: r.ExpiresAt.UTC(), ReturnURL: r.ReturnURL, State: r.ReturnState,
	}
}

type sessionLinkRow struct {
	bun.BaseModel `bun:"table:connect_session_links,alias:sl"`

	AccountID string `bun:",pk"`
	StateHash []byte `bun:",pk"`
	SessionID string
}

func sessionNotFound() error {
	return fault.FromStore(fault.ConnectSessionUnknown.With("the account has no such connect session"))
}

// StartConnectSession implements ports.ConnectSessions.
func (s *Store) StartConnectSession(ctx context.Context, cs tenant.ConnectSession, f ports.ConnectFlow) error {
	row := newConnectSessionRow(f.Account, cs)
	return s.inTransaction(ctx, "start connect session", func(ctx context.Context, tx bun.IDB) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		return addLink(ctx, tx, row.ID, f)
	})
}

func addLink(ctx context.Context, tx bun.IDB, sessionID string, f ports.ConnectFlow) error {
	flow := newFlowRow(f)
	if _, err := tx.NewInsert().Model(&flow).Exec(ctx); err != nil {
		return err
	}
	link := sessionLinkRow{AccountID: flow.AccountID, StateHash: flow.StateHash, SessionID: sessionID}
	_, err := tx.NewInsert().Model(&link).Exec(ctx)
	return err
}

// RenewConnectSession implements ports.ConnectSessions.
func (s *Store) RenewConnectSession(ctx context.Context, id string, f ports.ConnectFlow, storedAnswer *ports.StoredAnswer) error {
	owner := accountKey(f.Account)
	return s.inTransaction(ctx, "renew connect session", func(ctx context.Context, tx bun.IDB) error {
		var row connectSessionRow
		q := onlyVisible(ctx, tx.NewSelect().Model(&row).Where("cs.account_id = ?", owner).Where("cs.id = ?", ident.ParseOrZero(id)), "cs.tenant_guid")
		err := s.db.LockRows(q, "cs").Scan(ctx)
		if err != nil {
			return orNotFound(err, sessionNotFound())
		}
		if row.Status == string(tenant.SessionConnected) {
			return fault.FromStore(fault.SessionConnected.With("a tenant was connected through this session"))
		}
		_, err = tx.NewDelete().Model((*flowRow)(nil)).Where("f.account_id = ?", owner).
			Where("f.state_hash IN (SELECT sl.state_hash FROM connect_session_links AS sl WHERE sl.account_id = f.account_id AND sl.session_id = ?)", row.ID).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*connectSessionRow)(nil)).Set("status = ?", string(tenant.SessionPending)).Set("tenant_guid = ''").
			Set("expires_at = ?", storedTime(f.ExpiresAt)).Where("account_id = ?", owner).Where("id = ?", row.ID).Exec(ctx)
		if err != nil {
			return err
		}
		if err := addLink(ctx, tx, row.ID, f); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// ConnectSession implements ports.ConnectSessions.
func (s *Store) ConnectSession(ctx context.Context, owner access.AccountID, id string) (tenant.ConnectSession, error) {
	var row connectSessionRow
	err := s.db.RunRead(ctx, "find connect session", func(ctx context.Context, db bun.IDB) error {
		q := db.NewSelect().Model(&row).Where("cs.account_id = ?", accountKey(owner)).Where("cs.id = ?", ident.ParseOrZero(id))
		return orNotFound(onlyVisible(ctx, q, "cs.tenant_guid").Scan(ctx), sessionNotFound())
	})
	return row.session(), err
}

// ConnectSessionOfLink implements ports.ConnectSessions. The query names no account, because a
// browser sends only the state or its hash.
func (s *Store) ConnectSessionOfLink(ctx context.Context, stateHash [32]byte) (access.AccountID, tenant.ConnectSession, error) {
	var row connectSessionRow
	err := s.db.RunRead(ctx, "find connect session of a link", func(ctx context.Context, db bun.IDB) error {
		err := db.NewSelect().Model(&row).
			Join("JOIN connect_session_links AS sl ON sl.account_id = cs.account_id AND sl.session_id = cs.id").
			Where("sl.state_hash = ?", stateHash[:]).Scan(ctx)
		return orNotFound(err, sessionNotFound())
	})
	return access.AccountID(row.AccountID), row.session(), err
}

// AdvanceConnectSession implements ports.ConnectSessions. It changes nothing if the flow of the
// link no longer exists, because a renewal of the session deletes the flow of the replaced link.
func (s *Store) AdvanceConnectSession(ctx context.Context, owner access.AccountID, stateHash [32]byte, to tenant.SessionStatus, tenantID tenant.GUID) error {
	return s.db.RunWrite(ctx, "advance connect session", func(ctx context.Context, db bun.IDB) error {
		q := db.NewUpdate().Model((*connectSessionRow)(nil)).Set("status = ?", string(to)).
			Where("cs.account_id = ?", accountKey(owner)).Where("cs.status IN (?)", bun.List([]string{string(tenant.SessionPending), string(tenant.SessionConsented)})).
			Where("EXISTS (SELECT 1 FROM connect_session_links AS sl JOIN connect_flows AS f ON f.account_id = sl.account_id AND f.state_hash = sl.state_hash "+
				"WHERE sl.account_id = cs.account_id AND sl.session_id = cs.id AND sl.state_hash = ?)", stateHash[:])
		if tenantID != "" {
			q = q.Set("tenant_guid = ?", storedText(string(tenantID)))
		}
		_, err := q.Exec(ctx)
		return err
	})
}

// markSessionsConnected marks sessions as connected in the transaction that attaches their tenant.
func markSessionsConnected(ctx context.Context, tx bun.IDB, owner, guid string, ids []string) error {
	for _, id := range ids {
		_, err := tx.NewUpdate().Model((*connectSessionRow)(nil)).Set("status = ?", string(tenant.SessionConnected)).Set("tenant_guid = ?", guid).
			Where("account_id = ?", owner).Where("id = ?", ident.ParseOrZero(id)).Exec(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteConnectSessions implements ports.ConnectSessions. A foreign key deletes their links.
func (s *Store) DeleteConnectSessions(ctx context.Context, before time.Time) error {
	return s.db.RunWrite(ctx, "drop connect sessions", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*connectSessionRow)(nil)).Where("expires_at < ?", storedTime(before)).Exec(ctx)
		return err
	})
}
