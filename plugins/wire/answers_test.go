// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"testing"

	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

// The fixed providers answer with the same object, regardless of the object in the request.
type (
	fixedDNS struct {
		ports.DNSProvider
		zone dns.Zone
		sets []dns.RRSet
	}
	fixedMail struct {
		ports.MailPlatform
		ports.MailTenant
		domain  domain.Platform
		mailbox mailbox.Platform
	}
	fixedSending struct {
		ports.SendingPlatform
		account integration.Account
	}
)

func (f fixedDNS) Zone(context.Context, string) (dns.Zone, error)         { return f.zone, nil }
func (f fixedDNS) Records(context.Context, dns.Zone) ([]dns.RRSet, error) { return f.sets, nil }
func (f fixedDNS) Apply(context.Context, dns.Zone, []dns.Change) ([]dns.RRSet, error) {
	return f.sets, nil
}

func (f fixedMail) For(tenant.GUID) ports.MailTenant { return f }
func (f fixedMail) Domain(context.Context, string) (domain.Platform, error) {
	return f.domain, nil
}
func (f fixedMail) AddDomain(context.Context, string) (domain.Platform, error) {
	return f.domain, nil
}
func (f fixedMail) VerifyDomain(context.Context, string) (domain.Platform, error) {
	return f.domain, nil
}

func (f fixedMail) Mailbox(context.Context, string) (mailbox.Platform, error) { return f.mailbox, nil }
func (f fixedMail) CreateMailbox(context.Context, mailbox.Spec) (mailbox.Platform, error) {
	return f.mailbox, nil
}

func (f fixedSending) Account(context.Context, string) (integration.Account, error) {
	return f.account, nil
}

// TestAnswersAboutOtherObjectsAreBroken checks that the host classifies an answer as broken if it
// has a different object than the request, or an invalid name or record type.
func TestAnswersAboutOtherObjectsAreBroken(t *testing.T) {
	zone := dns.Zone{ID: "z-1", Name: "a.test"}
	records := func(name string, recordType dns.Type) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			return DNSInProcess(fixedDNS{sets: []dns.RRSet{{Name: name, Type: recordType, Values: []string{"v"}}}}).Records(ctx, zone)
		}
	}
	zoneNamed := func(name string) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			return DNSInProcess(fixedDNS{zone: dns.Zone{ID: "z-2", Name: name}}).Zone(ctx, zone.Name)
		}
	}
	mail := func(domainName, address string) ports.MailTenant {
		return MailInProcess(fixedMail{domain: domain.Platform{Name: domainName, Verified: true}, mailbox: mailbox.Platform{ObjectID: "m-2", Address: address}}).For("t-1")
	}
	account := func(id, address string) func(context.Context) (any, error) {
		return func(ctx context.Context) (any, error) {
			return SendingInProcess(fixedSending{account: integration.Account{ID: id, Address: address}}).Account(ctx, "ann@a.test")
		}
	}
	for _, tc := range []struct {
		name   string
		call   func(context.Context) (any, error)
		broken bool
	}{
		{"the zone", zoneNamed("A.test."), false},
		{"a different zone", zoneNamed("b.test"), true},
		{"the parent of the zone", zoneNamed("test"), true},
		{"the zone in U-labels", func(ctx context.Context) (any, error) {
			return DNSInProcess(fixedDNS{zone: dns.Zone{ID: "z-2", Name: "bücher.test"}}).Zone(ctx, "xn--bcher-kva.test")
		}, true},
		{"a zone without a name", zoneNamed(""), true},
		{"a record of the apex", records("a.test", dns.TXT), false},
		{"a record below the apex", records("_dmarc.a.test", "TYPE65534"), false},
		{"a record of a different zone", records("b.test", dns.TXT), true},
		{"a record of a name that ends like the zone", records("not-a.test", dns.TXT), true},
		{"a relative name", records("_dmarc", dns.TXT), true},
		{"a type in lower case", records("a.test", "txt"), true},
		{"no type", records("a.test", ""), true},
		{"a write that returns a different zone", func(ctx context.Context) (any, error) {
			return DNSInProcess(fixedDNS{sets: []dns.RRSet{{Name: "b.test", Type: dns.TXT}}}).Apply(ctx, zone, nil)
		}, true},
		{"the domain", func(ctx context.Context) (any, error) { return mail("A.test", "").Domain(ctx, "a.test") }, false},
		{"the domain in A-labels", func(ctx context.Context) (any, error) {
			return mail("XN--bcher-kva.test.", "").Domain(ctx, "xn--bcher-kva.test")
		}, false},
		{"the domain in U-labels", func(ctx context.Context) (any, error) {
			return mail("bücher.test", "").Domain(ctx, "xn--bcher-kva.test")
		}, true},
		{"a different domain", func(ctx context.Context) (any, error) { return mail("b.test", "").Domain(ctx, "a.test") }, true},
		{"a different domain was added", func(ctx context.Context) (any, error) { return mail("b.test", "").AddDomain(ctx, "a.test") }, true},
		{"a different domain was verified", func(ctx context.Context) (any, error) { return mail("b.test", "").VerifyDomain(ctx, "a.test") }, true},
		{"the mailbox", func(ctx context.Context) (any, error) { return mail("", "Ann@a.test").Mailbox(ctx, "ann@a.test") }, false},
		{"a different mailbox", func(ctx context.Context) (any, error) { return mail("", "ann@b.test").Mailbox(ctx, "ann@a.test") }, true},
		{"a different mailbox was created", func(ctx context.Context) (any, error) {
			return mail("", "bob@a.test").CreateMailbox(ctx, mailbox.Spec{Address: "ann@a.test"})
		}, true},
		{"the account", account("1", "Ann@a.test"), false},
		{"no account", account("", ""), false},
		{"a different account", account("1", "bob@a.test"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.call(t.Context())
			var outcomeErr *outcome.Error
			switch {
			case !tc.broken && err != nil:
				t.Errorf("got %v, want an accepted answer", err)
			case tc.broken && (!errors.As(err, &outcomeErr) || outcomeErr.Kind != outcome.Broken || outcomeErr.Cause != CauseProtocol):
				t.Errorf("got %+v, %v, want a broken answer", got, err)
			}
		})
	}
}

// unlistedStates maps the name of a message to answers with a state that docs/plugin-protocol.md
// does not list.
var unlistedStates = map[protoreflect.Name][]protobuf.Message{
	"Progress": {
		&proto.Progress{Status: "Ready"}, &proto.Progress{Status: "ready", Step: "call_support"}, &proto.Progress{},
	},
	"SMTPAuthAnswer":  {&proto.SMTPAuthAnswer{State: "on"}, &proto.SMTPAuthAnswer{}},
	"SendingProgress": {&proto.SendingProgress{State: "done"}, &proto.SendingProgress{}},
}

// TestUnlistedStatesAreBroken checks that an answer with an unlisted state is broken. An account is
// different: an unlisted state becomes AccountOther.
func TestUnlistedStatesAreBroken(t *testing.T) {
	for name, answers := range unlistedStates {
		for _, answer := range answers {
			var outcomeErr *outcome.Error
			if err := checkAnswer(nil, answer); !errors.As(err, &outcomeErr) || outcomeErr.Kind != outcome.Broken || outcomeErr.Cause != CauseProtocol {
				t.Errorf("the answer %s %v: got %v, want a broken answer", name, answer, err)
			}
		}
	}
	for _, answer := range []protobuf.Message{
		&proto.Progress{Status: "pending", Step: "grant_role"}, &proto.Progress{Status: "ready"},
		&proto.SMTPAuthAnswer{State: "refused"}, &proto.SendingProgress{State: "succeeded"},
	} {
		if err := checkAnswer(nil, answer); err != nil {
			t.Errorf("the listed state of %v: got %v, want an accepted answer", answer, err)
		}
	}
	for state, want := range map[string]integration.AccountState{"failed": integration.AccountFailed, "Failed": integration.AccountOther, "": integration.AccountOther} {
		if got := accountFromProto(&proto.SendingAccount{Id: "1", State: state}).State; got != want {
			t.Errorf("the state %q of an account becomes %q, want %q", state, got, want)
		}
	}
}

// TestImpossibleAnswersAreBroken checks that the host refuses answers that cannot be true, such as
// negative counts and the empty profile of a plugin that did not fill its answer.
func TestImpossibleAnswersAreBroken(t *testing.T) {
	for answer, broken := range map[protobuf.Message]bool{
		&proto.TenantProfile{}:                                    true,
		&proto.TenantProfile{Name: "Fabrikam"}:                    true,
		&proto.TenantProfile{BuiltinDomain: "fabrikam.mail.test"}: false,
		&proto.UserMailboxesAnswer{Count: -5}:                     true,
		&proto.UserMailboxesAnswer{}:                              false,
		&proto.EmailLicensesAnswer{Paid: -1, Trial: 2}:            true,
		&proto.EmailLicensesAnswer{Paid: 2, Trial: -1}:            true,
		&proto.EmailLicensesAnswer{Paid: 2, RecipientLimit: -1}:   true,
		&proto.EmailLicensesAnswer{}:                              false,
	} {
		var outcomeErr *outcome.Error
		err := checkAnswer(nil, answer)
		if isBroken := errors.As(err, &outcomeErr) && outcomeErr.Kind == outcome.Broken && outcomeErr.Cause == CauseProtocol; isBroken != broken || !broken && err != nil {
			t.Errorf("%T %v: got %v, want broken: %t", answer, answer, err, broken)
		}
	}
}

// TestEveryRequestNamesTheObjectOfItsAnswer calls checkAnswer with the empty request and the empty
// answer of every method of DNS, mail and sending plugins. checkAnswer panics if a request lacks
// the field that names the object of the answer.
func TestEveryRequestNamesTheObjectOfItsAnswer(t *testing.T) {
	message := func(d protoreflect.MessageDescriptor) protobuf.Message {
		messageType, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		return messageType.New().Interface()
	}
	for _, file := range []protoreflect.FileDescriptor{
		proto.File_plugins_proto_dns_proto, proto.File_plugins_proto_mail_proto, proto.File_plugins_proto_sending_proto,
	} {
		methods := file.Services().Get(0).Methods()
		for i := range methods.Len() {
			method := methods.Get(i)
			t.Run(string(method.FullName()), func(t *testing.T) {
				answer := message(method.Output())
				_, hasState := unlistedStates[answer.ProtoReflect().Descriptor().Name()]
				_, isProfile := answer.(*proto.TenantProfile)
				if err := checkAnswer(message(method.Input()), answer); (err != nil) != (hasState || isProfile) {
					t.Errorf("got %v, want an error: %t", err, hasState || isProfile)
				}
			})
		}
	}
}
