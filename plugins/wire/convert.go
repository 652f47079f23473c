// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

func descriptionToProto(description Description) *proto.Description {
	message := &proto.Description{
		Name:         description.Name,
		Kind:         string(description.Kind),
		Version:      description.Version,
		Title:        description.Title,
		Capabilities: description.Capabilities,
		NameServers:  description.NameServers,
		FaultDomain:  description.FaultDomain,
		MailPlatform: factsToProto(description.MailPlatform),
		Hosts:        description.Hosts,
	}
	if len(description.Needs) > 0 {
		message.Needs = make(map[string]*proto.FieldNames, len(description.Needs))
	}
	for capability, names := range description.Needs {
		message.Needs[capability] = &proto.FieldNames{Names: names}
	}
	for _, f := range description.Fields {
		message.Fields = append(message.Fields, &proto.Field{Name: f.Name, Secret: f.Secret, Required: f.Required, Default: f.Default, Help: f.Help, Account: f.Account})
	}
	for _, b := range description.Budgets {
		message.Budgets = append(message.Budgets, &proto.Budget{
			Key: b.Key, Limit: int64(b.Limit), Window: durationpb.New(b.Window), Costs: convertCounts[int, int64](b.Costs), Only: b.Only,
		})
	}
	return message
}

func descriptionFromProto(message *proto.Description) Description {
	description := Description{
		Name:         message.GetName(),
		Kind:         Kind(message.GetKind()),
		Version:      message.GetVersion(),
		Title:        message.GetTitle(),
		Capabilities: message.GetCapabilities(),
		NameServers:  message.GetNameServers(),
		FaultDomain:  message.GetFaultDomain(),
		MailPlatform: factsFromProto(message.GetMailPlatform()),
		Hosts:        message.GetHosts(),
	}
	if len(message.GetNeeds()) > 0 {
		description.Needs = make(map[string][]string, len(message.GetNeeds()))
	}
	for capability, fields := range message.GetNeeds() {
		description.Needs[capability] = fields.GetNames()
	}
	for _, f := range message.GetFields() {
		description.Fields = append(description.Fields, Field{Name: f.GetName(), Secret: f.GetSecret(), Required: f.GetRequired(), Default: f.GetDefault(), Help: f.GetHelp(), Account: f.GetAccount()})
	}
	for _, b := range message.GetBudgets() {
		description.Budgets = append(description.Budgets, Budget{
			Key: b.GetKey(), Limit: int(b.GetLimit()), Window: b.GetWindow().AsDuration(), Costs: convertCounts[int64, int](b.GetCosts()), Only: b.GetOnly(),
		})
	}
	return description
}

func factsToProto(f platform.Facts) *proto.PlatformFacts {
	return &proto.PlatformFacts{
		BuiltinDomains: f.BuiltinDomains, ExchangeHosts: f.Hosts.Exchanges, SigningHosts: f.Hosts.Signers, VerificationHosts: f.Hosts.Verification,
		ApplicationField: f.ApplicationField, Withdrawal: f.Withdrawal, LeftRules: f.LeftRules, Administrator: f.Administrator,
	}
}

func factsFromProto(f *proto.PlatformFacts) platform.Facts {
	return platform.Facts{
		BuiltinDomains:   f.GetBuiltinDomains(),
		Hosts:            dns.PlatformHosts{Exchanges: f.GetExchangeHosts(), Signers: f.GetSigningHosts(), Verification: f.GetVerificationHosts()},
		ApplicationField: f.GetApplicationField(), Withdrawal: f.GetWithdrawal(), LeftRules: f.GetLeftRules(), Administrator: f.GetAdministrator(),
	}
}

// timeToProto converts a time. The zero time becomes nil, because a zero Timestamp is the Unix
// epoch.
func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// timeFromProto converts a timestamp. It returns the zero time for a timestamp that is absent or
// invalid. A time outside the years 1 to 9999 is invalid. A plugin that confuses milliseconds and
// seconds sends such a time, and neither JSON nor SQLite can represent it.
func timeFromProto(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

// convertList converts each element of a list. It returns nil for an empty list.
func convertList[A, B any](list []A, convert func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	converted := make([]B, len(list))
	for i, a := range list {
		converted[i] = convert(a)
	}
	return converted
}

// convertCounts converts the values of a map to a different integer type. It returns nil for an
// empty map.
func convertCounts[F, T int | int64](counts map[string]F) map[string]T {
	if len(counts) == 0 {
		return nil
	}
	converted := make(map[string]T, len(counts))
	for name, n := range counts {
		converted[name] = T(n)
	}
	return converted
}

func signInToProto(s ports.SignIn) *proto.SignIn {
	return &proto.SignIn{
		Tenant: string(s.Tenant), State: s.State, Nonce: s.Nonce,
		Verifier: []byte(s.Verifier.Reveal()), Redirect: s.Redirect,
	}
}

func signInFromProto(s *proto.SignIn) ports.SignIn {
	return ports.SignIn{
		Tenant: tenant.GUID(s.GetTenant()), State: s.GetState(), Nonce: s.GetNonce(),
		Verifier: secret.New(string(s.GetVerifier())), Redirect: s.GetRedirect(),
	}
}

func administratorToProto(a tenant.Administrator) *proto.AdministratorAnswer {
	return &proto.AdministratorAnswer{Tenant: string(a.Tenant), Address: a.Address, Name: a.Name}
}

func administratorFromProto(a *proto.AdministratorAnswer) tenant.Administrator {
	return tenant.Administrator{Tenant: tenant.GUID(a.GetTenant()), Address: a.GetAddress(), Name: a.GetName()}
}

func profileToProto(p tenant.Profile) *proto.TenantProfile {
	return &proto.TenantProfile{Name: p.Name, BuiltinDomain: p.BuiltinDomain, DefaultDomain: p.DefaultDomain}
}

func profileFromProto(p *proto.TenantProfile) tenant.Profile {
	return tenant.Profile{Name: p.GetName(), BuiltinDomain: p.GetBuiltinDomain(), DefaultDomain: p.GetDefaultDomain()}
}

func domainToProto(d domain.Platform) *proto.PlatformDomain {
	return &proto.PlatformDomain{Name: d.Name, Verified: d.Verified, Default: d.Default, MailEnabled: d.MailEnabled}
}

func domainFromProto(d *proto.PlatformDomain) domain.Platform {
	return domain.Platform{Name: d.GetName(), Verified: d.GetVerified(), Default: d.GetDefault(), MailEnabled: d.GetMailEnabled()}
}

func recordToProto(r dns.Record) *proto.Record {
	return &proto.Record{Type: string(r.Type), Name: r.Name, Content: r.Content, Preference: int64(r.Preference), Ttl: int64(r.TTL)}
}

func recordFromProto(r *proto.Record) dns.Record {
	return dns.Record{Type: dns.Type(r.GetType()), Name: r.GetName(), Content: r.GetContent(), Preference: int(r.GetPreference()), TTL: int(r.GetTtl())}
}

func recordsToProto(r domain.Records) *proto.RecordsAnswer {
	return &proto.RecordsAnswer{Verification: convertList(r.Verification, recordToProto), Service: convertList(r.Service, recordToProto)}
}

func recordsFromProto(r *proto.RecordsAnswer) domain.Records {
	return domain.Records{Verification: convertList(r.GetVerification(), recordFromProto), Service: convertList(r.GetService(), recordFromProto)}
}

func progressToProto(p tenant.Progress) *proto.Progress {
	return &proto.Progress{Status: string(p.Status), Step: string(p.Step), Message: p.Message}
}

func progressFromProto(p *proto.Progress) tenant.Progress {
	return tenant.Progress{Status: tenant.Bootstrap(p.GetStatus()), Step: tenant.BootstrapStep(p.GetStep()), Message: sanitize(p.GetMessage())}
}

func signingToProto(s dns.Signing) *proto.DomainSigning {
	return &proto.DomainSigning{Enabled: s.Enabled, Selector1: recordToProto(s.Selector1), Selector2: recordToProto(s.Selector2)}
}

func signingFromProto(s *proto.DomainSigning) dns.Signing {
	return dns.Signing{Enabled: s.GetEnabled(), Selector1: recordFromProto(s.GetSelector1()), Selector2: recordFromProto(s.GetSelector2())}
}

func mailboxToProto(m mailbox.Platform) *proto.SharedMailbox {
	return &proto.SharedMailbox{
		ObjectId: m.ObjectID, DisplayName: m.DisplayName, Address: m.Address, PrincipalName: m.PrincipalName,
		Alias: m.Alias, AccountEnabled: m.AccountEnabled, CreatedAt: timeToProto(m.CreatedAt),
	}
}

func mailboxFromProto(m *proto.SharedMailbox) mailbox.Platform {
	return mailbox.Platform{
		ObjectID: m.GetObjectId(), DisplayName: m.GetDisplayName(), Address: m.GetAddress(), PrincipalName: m.GetPrincipalName(),
		Alias: m.GetAlias(), AccountEnabled: m.GetAccountEnabled(), CreatedAt: timeFromProto(m.GetCreatedAt()),
	}
}

func ruleToProto(r sendlimit.Rule) *proto.SendRule {
	return &proto.SendRule{Id: r.ID, Name: r.Name, Enabled: r.Enabled, Lists: r.Lists, Made: r.Created, Written: r.Written, Altered: r.Altered}
}

func ruleFromProto(r *proto.SendRule) sendlimit.Rule {
	return sendlimit.Rule{
		ID: r.GetId(), Name: r.GetName(), Enabled: r.GetEnabled(), Lists: r.GetLists(), Created: r.GetMade(), Written: r.GetWritten(),
		Altered: r.GetAltered(),
	}
}

func sentToProto(s sendlimit.Sent) *proto.SentMessage {
	return &proto.SentMessage{Message: s.Message, Sender: s.Sender, At: timeToProto(s.At), Refused: s.Refused}
}

func sentFromProto(s *proto.SentMessage) sendlimit.Sent {
	return sendlimit.Sent{Message: s.GetMessage(), Sender: s.GetSender(), At: timeFromProto(s.GetAt()), Refused: s.GetRefused()}
}

func traceToProto(t sendlimit.Trace) *proto.SentAnswer {
	return &proto.SentAnswer{Sent: convertList(t.Sent, sentToProto), Next: t.Next}
}

func traceFromProto(a *proto.SentAnswer) sendlimit.Trace {
	return sendlimit.Trace{Sent: convertList(a.GetSent(), sentFromProto), Next: a.GetNext()}
}

func zoneToProto(z dns.Zone) *proto.DNSZone {
	return &proto.DNSZone{Id: z.ID, Name: z.Name, NameServers: z.NameServers, Idle: z.Idle}
}

func zoneFromProto(z *proto.DNSZone) dns.Zone {
	return dns.Zone{ID: z.GetId(), Name: z.GetName(), NameServers: z.GetNameServers(), Idle: z.GetIdle()}
}

func recordSetToProto(s dns.RRSet) *proto.RecordSet {
	return &proto.RecordSet{
		Name: s.Name, Type: string(s.Type), Ttl: int64(s.TTL), Veiled: s.Veiled,
		Values: convertList(s.Values, func(v string) []byte { return []byte(v) }),
	}
}

func recordSetFromProto(s *proto.RecordSet) dns.RRSet {
	return dns.RRSet{
		Name: s.GetName(), Type: dns.Type(s.GetType()), TTL: int(s.GetTtl()), Veiled: s.GetVeiled(),
		Values: convertList(s.GetValues(), func(v []byte) string { return string(v) }),
	}
}

func recordSetsToProto(sets []dns.RRSet) *proto.RecordSets {
	return &proto.RecordSets{Sets: convertList(sets, recordSetToProto)}
}

func changeToProto(c dns.Change) *proto.RecordSetChange {
	return &proto.RecordSetChange{Before: recordSetToProto(c.Before), After: recordSetToProto(c.After)}
}

func changeFromProto(c *proto.RecordSetChange) dns.Change {
	return dns.Change{Before: recordSetFromProto(c.GetBefore()), After: recordSetFromProto(c.GetAfter())}
}

func reachToProto(r integration.Reach) *proto.SendingReach {
	return &proto.SendingReach{
		Roaming: r.SelectedWorkspaceOnly,
		Workspaces: convertList(r.Workspaces, func(w integration.Workspace) *proto.SendingWorkspace {
			return &proto.SendingWorkspace{Id: w.ID, Name: w.Name}
		}),
	}
}

func reachFromProto(r *proto.SendingReach) integration.Reach {
	return integration.Reach{
		SelectedWorkspaceOnly: r.GetRoaming(),
		Workspaces: convertList(r.GetWorkspaces(), func(w *proto.SendingWorkspace) integration.Workspace {
			return integration.Workspace{ID: sanitize(w.GetId()), Name: sanitize(w.GetName())}
		}),
	}
}

func accountToProto(a integration.Account) *proto.SendingAccount {
	return &proto.SendingAccount{
		Id: a.ID, Address: a.Address, Name: a.Name, State: string(a.State), Paused: a.Paused,
		HasError: a.HasError, Reason: a.Reason, Stamp: a.Stamp,
	}
}

func accountFromProto(a *proto.SendingAccount) integration.Account {
	return integration.Account{
		ID: a.GetId(), Address: a.GetAddress(), Name: sanitize(a.GetName()), State: accountStateFromProto(a), Paused: a.GetPaused(),
		HasError: a.GetHasError(), Reason: sanitize(a.GetReason()), Stamp: a.GetStamp(),
	}
}

func pageToProto(p integration.Page) *proto.SendingPage {
	return &proto.SendingPage{Accounts: convertList(p.Accounts, accountToProto), Next: p.Next}
}

func pageFromProto(p *proto.SendingPage) integration.Page {
	return integration.Page{Accounts: convertList(p.GetAccounts(), accountFromProto), Next: p.GetNext()}
}

func sessionToProto(s integration.SignIn) *proto.SendingSignIn {
	return &proto.SendingSignIn{Id: s.ID, Url: []byte(s.URL), ExpiresAt: timeToProto(s.ExpiresAt)}
}

func sessionFromProto(s *proto.SendingSignIn) integration.SignIn {
	return integration.SignIn{ID: s.GetId(), URL: string(s.GetUrl()), ExpiresAt: timeFromProto(s.GetExpiresAt())}
}

func signInProgressToProto(p integration.Progress) *proto.SendingProgress {
	return &proto.SendingProgress{State: string(p.State), Address: p.Address, Name: p.Name, Reason: p.Reason}
}

func signInProgressFromProto(p *proto.SendingProgress) integration.Progress {
	return integration.Progress{
		State: integration.SignInState(p.GetState()), Address: p.GetAddress(), Name: sanitize(p.GetName()), Reason: sanitize(p.GetReason()),
	}
}
