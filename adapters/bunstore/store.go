// SPDX-License-Identifier: Apache-2.0

// Package bunstore implements the store ports on PostgreSQL and SQLite, with the bun query builder.
// One type, Store, implements all of them. Most methods are one statement or one transaction. A
// statement on tables of accounts names the owner, the account for which it runs. The exceptions,
// such as sweeps of all accounts, are listed in statementsOfSeveralAccounts (ownership_test.go).
//
// Start reading at Open and inTransaction in store.go, then one resource such as domains.go. A row
// type is in the same file as most queries that use it. Package database runs the statements.
//
//	store.go              Options, Store, Open, inTransaction
//	accounts.go           accounts, their members and settings: read, create, change, suspend, close
//	apikeys.go            API keys: the caller of a request, keys of accounts, keys for operators
//	keybounds.go          bounds of API keys, and the rows that are visible to a key with bounds
//	audit.go              the operators' own log, and the chain of audit entries of each account
//	auditacts.go          acts of requests (see ports.Act), from which audit entries are made
//	idempotency.go        Idempotency-Key records, their leases and stored answers
//	connectflows.go       consent flows that connect a tenant, connect sessions
//	tenants.go            tenants: attach, assign to an account, withdraw
//	domains.go            domains, their reservations, finding domains whose DNS must be read
//	mailboxes.go          mailboxes and their reservations
//	discovery.go          merging the platform's lists into stored domains and mailboxes
//	observations.go       when objects were last observed, and merging observations
//	removals.go           removing tenants, domains, mailboxes and policies
//	dnsconnections.go     connections to DNS providers
//	dnswrites.go          changes of DNS zones, the values that tenantry wrote, undoing a run
//	dnsruns.go            provisioning runs and jobs
//	integrations.go       integrations with sending platforms, and saving their refreshes
//	connections.go        mailbox connections to an integration
//	signins.go            OAuth sessions, in which mailboxes sign in to a sending platform
//	sendlimits.go         send limit policies
//	tenantclaims.go       claims of tenants for enforcement: due tenants, leases, time zones
//	sendcounts.go         counts of sent messages, licences, health of enforcement
//	sendblocks.go         blocked mailboxes, block reasons, intents, orphan rules
//	enforcementevents.go  enforcement events, and their numbers per hour and day
//	events.go             the event log of each account: add, read and drop events, find a time
//	changes.go            events of changed objects, of runs and of readiness; deleting objects
//	webhooks.go           webhooks and their positions in the event log
//	webhookfanout.go      adding deliveries for new events, claiming due deliveries
//	webhookdeliveries.go  deliveries of events to webhooks: rows, results, lists
package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

// MemoryURL is the URL of a new SQLite database that is kept in memory until its Store is closed.
const MemoryURL = database.MemoryURL

// Options configures a Store. The zero value is valid.
type Options struct {
	Log *slog.Logger
	// See database.Options.
	MaxConns       int
	Synchronous    string
	RequirePrimary bool
	// Operator is the name of the operator in the audit events and entries that this Store records.
	// It is also stored as the creator of the keys that AddKey adds.
	Operator string
	// Now returns the time of new events in the accounts' logs, of new audit entries, and of the
	// changes that ReleaseMailbox makes. The default is time.Now.
	Now func() time.Time
	// AllowNoSMTPAuth is true if the operator accepts tenants without SMTP AUTH. The readiness in
	// events then does not require SMTP AUTH.
	AllowNoSMTPAuth bool
	TracerProvider  trace.TracerProvider
	MeterProvider   metric.MeterProvider

	Timeouts database.Timeouts // only tests set them
}

// Store implements the store ports on one database. It is safe for concurrent use.
type Store struct {
	db              *database.DB
	operator        string
	now             func() time.Time
	requireSMTPAuth bool
	eventsLogged    chan struct{} // see EventsLogged

	// Functions of the same names prepare these reads.
	callerBySecretRead    *database.PreparedRead
	callerByOldSecretRead *database.PreparedRead
	tenantListRead        *database.PreparedRead
	tenantRead            *database.PreparedRead
	domainRead            *database.PreparedRead
	tenantScopesRead      *database.PreparedRead
}

var _ interface {
	ports.Accounts
	ports.IssuedKeys
	ports.Keys
	ports.AccountKeys
	ports.Tenants
	ports.Assignments
	ports.Discoveries
	ports.Domains
	ports.DomainChecks
	ports.MailboxStore
	ports.Removals
	ports.ConnectFlows
	ports.ConnectSessions
	ports.AccountSettings
	ports.DNSConnections
	ports.DNSWrites
	ports.DNSRuns
	ports.DNSJobs
	ports.Integrations
	ports.Connections
	ports.SendPolicies
	ports.TenantTimeZones
	ports.TenantClaims
	ports.EnforcementEvents
	ports.Audit
	ports.AuditChains
	ports.EventLogs
	ports.Webhooks
	ports.Deliveries
	ports.WebhookHealthReader
	ports.Idempotency
} = (*Store)(nil)

// Open connects to sqlite:///path, MemoryURL or postgres://… It does not migrate the schema. It
// fails with database.ErrTooOld if the schema requires a newer release.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o)
}

func open(ctx context.Context, url string, o Options, hooks ...bun.QueryHook) (*Store, error) {
	db, err := database.Open(ctx, url, database.Options{
		Log: o.Log, MaxConns: o.MaxConns, Synchronous: o.Synchronous, RequirePrimary: o.RequirePrimary, TracerProvider: o.TracerProvider, MeterProvider: o.MeterProvider, Timeouts: o.Timeouts,
	}, append(hooks, changeHook{})...)
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, operator: storedText(cmp.Or(o.Operator, "unknown")), now: o.Now, requireSMTPAuth: !o.AllowNoSMTPAuth,
		eventsLogged: make(chan struct{}, 1), callerBySecretRead: callerBySecretRead(db.DB), callerByOldSecretRead: callerByOldSecretRead(db.DB),
		tenantListRead: tenantListRead(db.DB), tenantRead: tenantRead(db.DB), domainRead: domainRead(db.DB), tenantScopesRead: tenantScopesRead(db.DB),
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Close closes all connections.
func (s *Store) Close() error { return s.db.Close() }

// Ping returns an error if the database does not answer.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// Migrate applies the migrations that the database lacks. It fails with database.ErrTooOld if the
// schema requires a newer release.
func (s *Store) Migrate(ctx context.Context) error { return s.db.Migrate(ctx) }

// ApplyMigrations does the same as Migrate, and returns the names of the applied migrations.
func (s *Store) ApplyMigrations(ctx context.Context) ([]string, error) {
	return s.db.ApplyMigrations(ctx)
}

// PendingMigrations returns the names of the migrations that this release has and the database
// lacks.
func (s *Store) PendingMigrations(ctx context.Context) ([]string, error) {
	return s.db.PendingMigrations(ctx)
}

// inTransaction runs work in one transaction. If work succeeds, inTransaction stores the events
// that work emitted. Then it stores or ends the act of the request (see actRow), and stores the
// audit entries. These are the last steps of the transaction, in this order.
//
// If all steps succeed and have changed rows, inTransaction records a change in the ports.Effects
// of ctx. It does so even if the commit fails, because the outcome of a failed commit is unknown.
// It records a stored answer only if the commit succeeds.
func (s *Store) inTransaction(ctx context.Context, operation string, work database.Func) error {
	return s.db.RetryWrite(ctx, operation, func() error {
		var effects ports.Effects
		var workErr error
		entries := pendingEntries{act: ports.ActOf(ctx)}
		var hasEvents bool
		err := s.db.Transaction(ports.WithEffects(ctx, &effects), func(ctx context.Context, tx bun.IDB) error {
			var pending pendingEvents
			inner := context.WithValue(context.WithValue(ctx, pendingEventsKey{}, &pending), pendingEntriesKey{}, &entries)
			workErr = work(inner, tx)
			changed := effects.Recorded().Changed
			if workErr == nil {
				workErr = s.storeEvents(context.WithValue(ctx, pendingEventsKey{}, &pending), tx, &pending)
			}
			if workErr == nil {
				workErr = entries.store(ctx, s, tx, changed)
			}
			hasEvents = len(pending.events) > 0
			return workErr
		})
		if workErr == nil && effects.Recorded().Changed {
			ports.RecordChange(ctx)
		}
		if err == nil && effects.Recorded().Completed {
			ports.RecordStoredAnswer(ctx)
		}
		if workErr == nil {
			entries.afterCommit(err == nil)
		}
		if err == nil && hasEvents {
			s.signalEvents()
		}
		return err
	})
}

// changeHook records in the ports.Effects of the context that a statement changed rows.
type changeHook struct{}

func (changeHook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery records a change for each INSERT, UPDATE and DELETE, unless the statement is known to
// have changed no row. A failed statement counts as a change, because the database may have
// executed it before the answer was lost.
func (changeHook) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	if !slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, event.Operation()) || errors.Is(event.Err, sql.ErrNoRows) {
		return
	}
	if event.Err == nil && event.Result != nil {
		if n, err := event.Result.RowsAffected(); err == nil && n == 0 {
			return
		}
	}
	ports.RecordChange(ctx)
}

// storedText replaces NUL and invalid UTF-8, which PostgreSQL rejects, with replacement characters.
// Texts from providers can contain any byte. If storedText deleted the bytes, "a\x00b" would become
// "ab", which is a different text.
func storedText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// storedTime returns t in UTC, truncated to microseconds, which is the precision of both databases.
func storedTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// HasSealedValues returns the result of database.HasSealedValues.
func (s *Store) HasSealedValues(ctx context.Context) (bool, error) {
	sealed, err := database.HasSealedValues(ctx, s.db)
	if err != nil {
		return false, database.Translate(ctx, err)
	}
	return sealed, nil
}

// SealedPrefixes returns the result of database.SealedPrefixes.
func (s *Store) SealedPrefixes(ctx context.Context) (map[string][][]byte, error) {
	prefixes, err := database.SealedPrefixes(ctx, s.db)
	if err != nil {
		return nil, database.Translate(ctx, err)
	}
	return prefixes, nil
}

// whereIn restricts a query to rows with one of the values. An empty list does not restrict it.
func whereIn(q *bun.SelectQuery, column string, values []string) *bun.SelectQuery {
	if len(values) == 0 {
		return q
	}
	return q.Where("? IN (?)", bun.Ident(column), bun.List(values))
}

// orNotFound returns refusal if a query found no row, and err otherwise.
func orNotFound(err, refusal error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return refusal
	}
	return err
}

// batchSize is the maximum number of rows or ids per statement if a long list is split.
const batchSize = 500

func convertAll[A, B any](list []A, convert func(A) B) []B {
	converted := make([]B, 0, len(list))
	for _, item := range list {
		converted = append(converted, convert(item))
	}
	return converted
}

// newID returns a random id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// accountKey returns the account's id in the form in which it is stored.
func accountKey(owner access.AccountID) string { return ident.ParseOrZero(string(owner)) }

// requireRow returns refusal if the statement succeeded but changed no row.
func requireRow(res sql.Result, err, refusal error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return refusal
	}
	return err
}

// nulReplacer replaces the JSON escape of NUL by the escape of U+FFFD. It reads an escaped
// backslash as one unit, so it keeps the text `\u0000`, whose JSON form is `\\u0000`.
var nulReplacer = strings.NewReplacer(`\\`, `\\`, `\u0000`, `\ufffd`)

// storedJSON returns the JSON form of v, in which NUL is replaced as in storedText.
//
// A JSON column whose texts come from outside has either the type json.RawMessage without a type in
// its bun tag, or a type with a Value method. Bun then writes the JSON like any other text. If the
// tag of a json.RawMessage has the type jsonb, or another type has no Value method, bun changes the
// text `\u0000`. PostgreSQL refuses the result, and SQLite stores a different text.
func storedJSON(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	return json.RawMessage(nulReplacer.Replace(string(text))), err
}

func jsonValue(v any) (driver.Value, error) {
	text, err := storedJSON(v)
	return string(text), err
}

type storedDetails map[string]string

// Value implements driver.Valuer.
func (d storedDetails) Value() (driver.Value, error) { return jsonValue(d) }

type storedAttempts []webhook.Attempt

// Value implements driver.Valuer.
func (a storedAttempts) Value() (driver.Value, error) { return jsonValue(a) }

// Value implements driver.Valuer.
func (r storedRecords) Value() (driver.Value, error) { return jsonValue(r) }
