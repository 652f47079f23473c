// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const unknownGUID = tenant.GUID("99999999-0000-4000-8000-000000000000")

func TestTenantComesBackAsItWasSaved(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want := attachTenant(t, s, ann, 1)
		want.Name, want.BuiltinDomain, want.DefaultDomain = hostileText, "contoso.onmicrosoft.com", "contoso.test"
		want.Consent, want.Bootstrap, want.BootstrapStep = tenant.ConsentRevoked, tenant.BootstrapFailed, tenant.StepGrantRole
		want.SMTPAuth, want.Discovery, want.UserMailboxes = tenant.SMTPAuthRefused, tenant.DiscoveryFailed, 17
		want.LastSyncAt = now.Add(time.Minute)
		must(t, "save", s.SaveTenant(t.Context(), ann, want))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestBytesThatAreNotTextDoNotBreakSaveOfTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attached := attachTenant(t, s, ann, 1)
		attached.Name = "a\x00b\xffc"
		must(t, "save", s.SaveTenant(t.Context(), ann, attached))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if got.Name == "abc" || got.Name == "" {
			t.Fatalf("the name is %q, want one with replacements for the invalid bytes", got.Name)
		}
	})
}

func TestForeignTenantGetsTheSameAnswerAsUnknownOne(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attached := attachTenant(t, s, ann, 1)
		unknown := attached
		unknown.ID, unknown.GUID = string(unknownGUID), unknownGUID
		for name, call := range map[string]func(owner access.AccountID, target tenant.Tenant) error{
			"tenant": func(owner access.AccountID, target tenant.Tenant) error {
				_, err := s.Tenant(t.Context(), owner, target.GUID)
				return err
			},
			"save": func(owner access.AccountID, target tenant.Tenant) error {
				return s.SaveTenant(t.Context(), owner, target)
			},
			"delete": func(owner access.AccountID, target tenant.Tenant) error {
				return s.DeleteTenant(t.Context(), owner, target.GUID, nil)
			},
		} {
			foreign := call(bob, attached)
			requireRefusal(t, name, foreign, fault.TenantNotFound)
			requireSameError(t, name, foreign, call(ann, unknown))
		}
		_, malformedErr := s.Tenant(t.Context(), ann, "nonsense")
		_, unknownErr := s.Tenant(t.Context(), ann, unknownGUID)
		requireSameError(t, "malformed", malformedErr, unknownErr)
		tenants, err := s.Tenants(t.Context(), bob)
		must(t, "list", err)
		if len(tenants) != 0 {
			t.Fatalf("bob's tenants are %+v, want none", tenants)
		}
		_, err = s.Tenant(t.Context(), ann, guid(1))
		must(t, "the tenant afterwards", err)
	})
}

func TestTenantsAreListedByTimeOfConnection(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n, age := range []time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour} {
			_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(n), ConsentedAt: now.Add(-age)})
			must(t, "attach", err)
		}
		tenants, err := s.Tenants(t.Context(), ann)
		must(t, "list", err)
		if len(tenants) != 3 || tenants[0].GUID != guid(1) || tenants[1].GUID != guid(0) || tenants[2].GUID != guid(2) {
			t.Fatalf("the tenants are %+v, want the latest consent first", tenants)
		}
	})
}

func TestTenantCountsOnlyItsOwnDomainsAndMailboxes(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n := range 2 {
			attached := attachTenant(t, s, ann, n)
			signed := addDomain(t, s, ann, attached.GUID, "signed.test")
			signed.Verified, signed.DKIMEnabled, signed.Status.VerificationSeen = true, true, true
			must(t, "save", s.SaveDomain(t.Context(), ann, signed, nil))
			published := addDomain(t, s, ann, attached.GUID, "seen.test")
			published.Status.VerificationSeen = true
			must(t, "save", s.SaveDomain(t.Context(), ann, published, nil))
			_, err := s.ReserveDomain(t.Context(), ann, attached.GUID, "unfinished.test", 12, now)
			must(t, "reserve", err)
			addMailbox(t, s, ann, signed, "ready", mailbox.Ready)
			addMailbox(t, s, ann, signed, "created", mailbox.Created)
			addMailbox(t, s, ann, signed, "creating", mailbox.Creating)
		}
		tenants, err := s.Tenants(t.Context(), ann)
		must(t, "list", err)
		tenant1, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		for _, counted := range append(tenants, tenant1) {
			got := [...]int{counted.DomainCount, counted.DomainsVerified, counted.DomainsSigned, counted.DomainsAwaitingVerification, counted.MailboxCount}
			if want := [...]int{2, 1, 1, 1, 2}; got != want {
				t.Fatalf("%d domains, %d verified, %d signed, %d awaiting verification, and %d mailboxes are counted, want %v", got[0], got[1], got[2], got[3], got[4], want)
			}
		}
	})
}

func TestSaveThatBeganBeforeNewConsentDoesNotOverwriteIt(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		stale := attachTenant(t, s, ann, 1)
		stale.Consent, stale.Name = tenant.ConsentRevoked, "As it was seen"
		renewal := stale
		renewal.ConsentedAt = now.Add(time.Hour)
		_, err := s.Attach(t.Context(), ann, renewal)
		must(t, "renew", err)
		must(t, "save", s.SaveTenant(t.Context(), ann, stale))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		if got.Consent != tenant.ConsentGranted || got.Name != stale.Name || !got.ConsentedAt.Equal(renewal.ConsentedAt) {
			t.Fatalf("the tenant is %+v, want the new consent and the saved name", got)
		}
	})
}

func TestDeletingTenantFreesItForOtherAccounts(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		d := addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
		addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		attachTenant(t, s, ann, 3)
		must(t, "delete", s.DeleteTenant(t.Context(), ann, guid(1), nil))
		_, err := s.Attach(t.Context(), bob, tenant.Tenant{GUID: guid(3), ConsentedAt: now})
		requireRefusal(t, "attach another tenant of the account", err, fault.TenantHeld)
		requireRefusal(t, "delete again", s.DeleteTenant(t.Context(), ann, guid(1), nil), fault.TenantNotFound)
		_, err = s.DomainByID(t.Context(), ann, d.ID)
		requireRefusal(t, "domain", err, fault.DomainNotFound)
		if attached := attachTenant(t, s, bob, 1); attached.DomainCount != 0 || attached.MailboxCount != 0 {
			t.Fatalf("bob attached %+v, want a tenant without domains and mailboxes", attached)
		}
		mailboxes, err := s.Mailboxes(t.Context(), bob, guid(1))
		must(t, "mailboxes of bob", err)
		if len(mailboxes) != 0 {
			t.Fatalf("bob's mailboxes are %+v, want none", mailboxes)
		}
	})
}

func TestWorkOnTenantThatIsBeingDeletedDoesNotFindIt(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		for n := range 5 { // the order of the calls differs from round to round
			d := addDomain(t, s, ann, attachTenant(t, s, ann, n).GUID, "contoso.test")
			for _, err := range concurrently(8, func(i int) error {
				switch i % 4 {
				case 0:
					return s.DeleteTenant(t.Context(), ann, guid(n), nil)
				case 1:
					_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b"), 3, now)
					return err
				case 2:
					_, err := s.ReserveDomain(t.Context(), ann, guid(n), "new.test", 12, now)
					return err
				default:
					return s.SaveDiscovery(t.Context(), ann, guid(n), ports.DiscoveryResult{Began: now, Mailboxes: platformMailboxes("a@contoso.test")})
				}
			}) {
				if err != nil && !errors.Is(err, fault.TenantNotFound) && !errors.Is(err, fault.DomainNotFound) {
					t.Fatalf("got %v, want success, tenant_not_found or domain_not_found", err)
				}
			}
		}
	})
}

func TestCancelledContextEndsCallAndStoresNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		cancelledCtx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Attach(cancelledCtx, ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("attach: got %v, want %v", err, context.Canceled)
		}
		if _, err = s.Tenants(cancelledCtx, ann); !errors.Is(err, context.Canceled) {
			t.Fatalf("list: got %v, want %v", err, context.Canceled)
		}
		tenantCount, err := s.TenantCount(t.Context(), ann)
		must(t, "count", err)
		if tenantCount != 0 {
			t.Fatalf("%d tenants are stored, want none", tenantCount)
		}
	})
}

func TestNewTenantHasConsentAndPendingBootstrap(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		got := attachTenant(t, s, newAccount(t, s, "ann"), 1)
		want := tenant.Tenant{
			ID: got.ID, GUID: guid(1), Name: "Contoso", ConsentedAt: now, ConnectedBy: "admin@contoso.test",
			Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapPending,
			SMTPAuth: tenant.SMTPAuthUnknown, Discovery: tenant.DiscoveryPending,
		}
		if got != want || got.ID == "" {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestSecondConsentRenewsFirstAndTakesNoSlot(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attached := attachTenant(t, s, ann, 1)
		setSlots(t, s, ann, 1)
		attached.Consent, attached.Bootstrap, attached.BootstrapStep = tenant.ConsentRevoked, tenant.BootstrapFailed, tenant.StepGrantRole
		must(t, "save", s.SaveTenant(t.Context(), ann, attached))
		d := addDomain(t, s, ann, guid(1), "contoso.test")
		renewed, err := s.Attach(t.Context(), ann, tenant.Tenant{
			GUID: guid(1), Name: "Other", ConsentedAt: now.Add(time.Hour), ConnectedBy: "other@contoso.test",
		})
		must(t, "attach while all slots are used", err)
		if renewed.ID != attached.ID || renewed.Consent != tenant.ConsentGranted || renewed.Name != "Contoso" ||
			renewed.ConnectedBy != "other@contoso.test" || !renewed.ConsentedAt.Equal(now.Add(time.Hour)) ||
			renewed.Bootstrap != tenant.BootstrapPending || renewed.BootstrapStep != tenant.StepWait {
			t.Fatalf("got %+v, want the tenant %s with the new consent and a pending bootstrap", renewed, attached.ID)
		}
		_, err = s.DomainByID(t.Context(), ann, d.ID)
		must(t, "the domain afterwards", err)
	})
}

// TestRepeatedAssignmentIsNotAConsent checks that a repeated assignment keeps the time of the
// consent and the administrator. The assignment still proves that the consent is valid. Therefore
// an observation from before the assignment cannot revoke the consent afterwards. If the stored
// consent was revoked, the time of the assignment becomes the time of the consent.
func TestRepeatedAssignmentIsNotAConsent(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		const admin = "admin@contoso.test"
		ann := newAccount(t, s, "ann")
		attach := func(managed bool, connectedBy string, at time.Time) tenant.Tenant {
			t.Helper()
			attached, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: managed, ConsentedAt: at, ConnectedBy: connectedBy})
			must(t, "attach", err)
			return attached
		}
		revoke := func(at time.Time) {
			t.Helper()
			seen, err := s.Tenant(t.Context(), ann, guid(1))
			must(t, "tenant", err)
			seen.Consent, seen.Observed.Consent = tenant.ConsentRevoked, at
			must(t, "save", s.SaveTenant(t.Context(), ann, seen))
		}
		requireConsent := func(got tenant.Tenant, consentedAt time.Time) {
			t.Helper()
			if got.Consent != tenant.ConsentGranted || !got.ConsentedAt.Equal(consentedAt) || got.ConnectedBy != admin || !got.Managed {
				t.Fatalf("got %+v, want a managed tenant with the consent of %s at %v", got, admin, consentedAt)
			}
		}
		attach(true, "", now)
		attach(false, admin, now.Add(time.Hour))
		requireConsent(attach(true, "", now.Add(3*time.Hour)), now.Add(time.Hour))
		revoke(now.Add(2 * time.Hour))
		got, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		requireConsent(got, now.Add(time.Hour))
		revoke(now.Add(4 * time.Hour))
		requireConsent(attach(true, "", now.Add(5*time.Hour)), now.Add(5*time.Hour))
	})
}

// TestRepeatedAssignmentRetriesBootstrap checks that a repeated assignment sets a failed bootstrap
// back to pending, although it does not renew the consent.
func TestRepeatedAssignmentRetriesBootstrap(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		assignTenant(t, s, ann, 1)
		failed, err := s.Tenant(t.Context(), ann, guid(1))
		must(t, "tenant", err)
		failed.Bootstrap, failed.BootstrapStep, failed.Observed.Bootstrap = tenant.BootstrapFailed, tenant.StepGrantRole, now.Add(time.Hour)
		must(t, "save", s.SaveTenant(t.Context(), ann, failed))
		reassigned, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: true, ConsentedAt: now.Add(2 * time.Hour)})
		must(t, "assign again", err)
		if reassigned.Bootstrap != tenant.BootstrapPending || reassigned.BootstrapStep != tenant.StepWait {
			t.Fatalf("the bootstrap is %s in step %s, want pending", reassigned.Bootstrap, reassigned.BootstrapStep)
		}
	})
}

func TestTenantBeyondLimitIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		attachTenant(t, s, ann, 1)
		setSlots(t, s, ann, 1)
		_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(2), ConsentedAt: now})
		requireRefusal(t, "attach", err, fault.TenantLimitReached)
		_, err = s.Attach(t.Context(), newAccount(t, s, "bob"), tenant.Tenant{GUID: guid(2), ConsentedAt: now})
		must(t, "attach by another account", err)
	})
}

func setSlots(t testing.TB, s *Store, owner access.AccountID, slots int) {
	t.Helper()
	_, err := s.ChangePlan(t.Context(), owner, "complete", slots)
	must(t, "change plan", err)
}

// TestSuspendedAccountCannotAttachTenant checks that Attach refuses a suspended account until it is
// resumed. An operator can assign a tenant to a suspended account.
func TestSuspendedAccountCannotAttachTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		_, err := s.SetActive(t.Context(), ann, false)
		must(t, "suspend", err)
		_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now})
		requireRefusal(t, "attach", err, fault.NoAPIPlan)
		_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), Managed: true, ConsentedAt: now})
		must(t, "assign", err)
		_, err = s.SetActive(t.Context(), ann, true)
		must(t, "resume", err)
		_, err = s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(2), ConsentedAt: now})
		must(t, "attach", err)
	})
}

func TestTenantThatDifferentAccountHoldsIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attachTenant(t, s, ann, 1)
		_, err := s.Attach(t.Context(), bob, tenant.Tenant{GUID: guid(1), ConsentedAt: now})
		requireRefusal(t, "attach", err, fault.TenantHeld)
		tenantCount, err := s.TenantCount(t.Context(), bob)
		must(t, "count", err)
		if tenantCount != 0 {
			t.Fatalf("the refused account holds %d tenants, want none", tenantCount)
		}
	})
}

func TestConcurrentAttachmentsTakeExactlyAvailableSlots(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		setSlots(t, s, ann, 5)
		errs := concurrently(concurrency, func(i int) error {
			_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(i), ConsentedAt: now})
			return err
		})
		tenantCount, err := s.TenantCount(t.Context(), ann)
		must(t, "count", err)
		if n := countWinners(t, errs, fault.TenantLimitReached); n != 5 || tenantCount != 5 {
			t.Fatalf("%d attachments succeeded and %d tenants are stored, want 5 (the number of slots)", n, tenantCount)
		}
	})
}

func TestOneOfConcurrentAccountsGetsTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accounts := make([]access.AccountID, 8)
		for i := range accounts {
			accounts[i] = newAccount(t, s, string(rune('a'+i)))
		}
		errs := concurrently(len(accounts), func(i int) error {
			_, err := s.Attach(t.Context(), accounts[i], tenant.Tenant{GUID: guid(1), ConsentedAt: now})
			return err
		})
		if n := countWinners(t, errs, fault.TenantHeld); n != 1 {
			t.Fatalf("%d accounts hold the tenant, want 1", n)
		}
	})
}

func TestConcurrentAttachmentsWithSameConsentCreateOneTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		setSlots(t, s, ann, 1)
		errs := concurrently(8, func(int) error {
			_, err := s.Attach(t.Context(), ann, tenant.Tenant{GUID: guid(1), ConsentedAt: now})
			return err
		})
		for _, err := range errs {
			must(t, "attach", err)
		}
		tenants, err := s.Tenants(t.Context(), ann)
		must(t, "list", err)
		if len(tenants) != 1 {
			t.Fatalf("the stored tenants are %+v, want one", tenants)
		}
	})
}

func TestTenantNeedsExistingAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		_, err := s.Attach(t.Context(), "nonsense", tenant.Tenant{GUID: guid(1), ConsentedAt: now})
		requireRefusal(t, "attach", err, fault.AccountNotFound)
	})
}

// startFlow stores a connect session and returns the flow of its first link.
func startFlow(t testing.TB, s *Store, owner access.AccountID, n byte) ports.ConnectFlow {
	t.Helper()
	_, flow := startSession(t, s, owner, n)
	return flow
}

func TestFlowStoresWhatItsStepsAdd(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		want, otherFlow := startFlow(t, s, ann, 1), startFlow(t, s, ann, 2)
		_, err := s.TakeFlow(t.Context(), otherFlow.StateHash, otherFlow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "first step of the other flow", err)
		got, err := s.TakeFlow(t.Context(), want.StateHash, want.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "first step", err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the flow before the step (-want +got):\n%s", diff)
		}
		want.Step, want.BrowserHash, want.ClaimedTenant = ports.FlowSigningIn, [32]byte{2, 'b'}, guid(1)
		want.SignInHash, want.Nonce, want.SealedVerifier = [32]byte{3}, "nonce", []byte{0, 1, 255}
		want.Administrator = tenant.Administrator{Tenant: guid(1), Address: "admin@contoso.test", Name: hostileText}
		want.Profile = tenant.Profile{Name: hostileText, BuiltinDomain: "contoso.onmicrosoft.com", DefaultDomain: "contoso.test"}
		must(t, "save", s.SaveFlow(t.Context(), want))
		got, err = s.TakeFlow(t.Context(), want.StateHash, want.BrowserHash, ports.FlowSigningIn, ports.FlowProving, now)
		must(t, "second step", err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the flow after saving (-want +got):\n%s", diff)
		}
		got, err = s.TakeFlow(t.Context(), otherFlow.StateHash, otherFlow.BrowserHash, ports.FlowSigningIn, ports.FlowProving, now)
		must(t, "second step of the other flow", err)
		otherFlow.Step = ports.FlowSigningIn
		if diff := cmp.Diff(otherFlow, got); diff != "" {
			t.Fatalf("the other flow (-want +got):\n%s", diff)
		}
	})
}

func TestOnlyFlowAtExpectedStepMovesOn(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		flow := startFlow(t, s, newAccount(t, s, "ann"), 1)
		for _, tc := range []struct {
			name                   string
			stateHash, browserHash [32]byte
			step                   ports.ConnectStep
			at                     time.Time
		}{
			{"unknown state", [32]byte{9}, flow.BrowserHash, ports.FlowStarted, now},
			{"a different browser", flow.StateHash, [32]byte{9}, ports.FlowStarted, now},
			{"a later step", flow.StateHash, flow.BrowserHash, ports.FlowConfirm, now},
			{"at its expiry", flow.StateHash, flow.BrowserHash, ports.FlowStarted, flow.ExpiresAt},
			{"long expired", flow.StateHash, flow.BrowserHash, ports.FlowStarted, flow.ExpiresAt.Add(time.Hour)},
		} {
			_, err := s.TakeFlow(t.Context(), tc.stateHash, tc.browserHash, tc.step, ports.FlowDone, tc.at)
			requireRefusal(t, tc.name, err, fault.ConnectLinkInvalid)
		}
		_, err := s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "the flow afterwards", err)
		_, err = s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		requireRefusal(t, "used again", err, fault.ConnectLinkInvalid)
	})
}

// TestInventedFlowDoesNotWaitForWriters checks that the store refuses an unknown flow without a
// write. Otherwise forged requests would delay the writes of real requests.
func TestInventedFlowDoesNotWaitForWriters(t *testing.T) {
	s := migratedStore(t, MemoryURL)
	flow := startFlow(t, s, newAccount(t, s, "ann"), 1)
	release := holdWriteSlot(t, s)
	_, err := s.TakeFlow(t.Context(), [32]byte{9}, [32]byte{}, ports.FlowStarted, ports.FlowSigningIn, now)
	requireRefusal(t, "invented", err, fault.ConnectLinkInvalid)
	release()
	_, err = s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
	must(t, "the real flow", err)
}

func TestOneOfConcurrentAttemptsTakesStepOfFlow(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		flow := startFlow(t, s, newAccount(t, s, "ann"), 1)
		errs := concurrently(concurrency, func(int) error {
			_, err := s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
			return err
		})
		if n := countWinners(t, errs, fault.ConnectLinkInvalid); n != 1 {
			t.Fatalf("%d attempts took the step, want 1", n)
		}
	})
}

func TestFlowThatMovedOnIsNotOverwritten(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		flow := startFlow(t, s, ann, 1)
		flowOfBob := flow
		flowOfBob.Account = bob
		requireRefusal(t, "save for another account", s.SaveFlow(t.Context(), flowOfBob), fault.ConnectLinkInvalid)
		_, err := s.TakeFlow(t.Context(), flow.StateHash, flow.BrowserHash, ports.FlowStarted, ports.FlowSigningIn, now)
		must(t, "step", err)
		requireRefusal(t, "save at the step before", s.SaveFlow(t.Context(), flow), fault.ConnectLinkInvalid)
	})
}

func TestExpiredFlowsAreDropped(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		expired := startFlow(t, s, ann, 1)
		valid := expired
		valid.StateHash, valid.ExpiresAt = [32]byte{2}, expired.ExpiresAt.Add(time.Hour)
		must(t, "start", s.StartConnectSession(t.Context(), tenant.ConnectSession{ID: newID(), ExpiresAt: valid.ExpiresAt}, valid))
		must(t, "drop", s.DeleteFlows(t.Context(), expired.ExpiresAt.Add(time.Second)))
		// At now the flow has not expired yet, so only its deletion can refuse it.
		_, err := s.TakeFlow(t.Context(), expired.StateHash, expired.BrowserHash, ports.FlowStarted, ports.FlowDone, now)
		requireRefusal(t, "dropped", err, fault.ConnectLinkInvalid)
		_, err = s.TakeFlow(t.Context(), valid.StateHash, valid.BrowserHash, ports.FlowStarted, ports.FlowDone, now)
		must(t, "kept", err)
	})
}
