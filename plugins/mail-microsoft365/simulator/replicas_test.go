// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"cmp"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestLaggingReplicaAnswersChosenGraphReads(t *testing.T) {
	for answers, want := range map[string]struct{ listed, found bool }{
		"lists": {false, true}, "objects": {true, false}, "all": {false, false}, "": {true, true},
	} {
		t.Run("answers "+answers, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			testTenant.setBehaviour(jsonObject{"domain_ms": 0, "graph_replicas": jsonObject{"lag_ms": 3_600_000, "answers": answers}})
			testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
			expectRead := func(when string, listed, found bool) {
				t.Helper()
				if domains := testTenant.callGraph("GET", "/domains", nil).rows(); (len(domains) == 2) != listed {
					t.Errorf("%s: the list has %d domains, want the new domain in it: %v", when, len(domains), listed)
				}
				if answer := testTenant.callGraph("GET", "/domains/"+domain, nil); (answer.status == http.StatusOK) != found {
					t.Errorf("%s: GET of the domain answers %d, want it found: %v", when, answer.status, found)
				}
			}
			expectRead("at once", want.listed, want.found)
			testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
			expectRead("an hour later", true, true)
			testTenant.callGraph("DELETE", "/domains/"+domain, nil)
			expectRead("deleted", !want.listed, !want.found)
		})
	}
}

func TestLaggingReplicaAnswersChosenExchangeReads(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	countSharedMailboxes := func() int {
		return len(testTenant.runCmdlet("Get-Mailbox", jsonObject{"RecipientTypeDetails": []string{"SharedMailbox"}, "ResultSize": "Unlimited"}).rows())
	}
	before := countSharedMailboxes()
	testTenant.setBehaviour(jsonObject{"mailbox_ms": 0, "exchange_replicas": jsonObject{"lag_ms": 3_600_000, "answers": "lists"}})
	testTenant.newMailbox("bob@"+domain, "bob.d")
	if got := countSharedMailboxes(); got != before {
		t.Errorf("%d mailboxes are listed at once, want %d", got, before)
	}
	if answer := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "bob@" + domain}); answer.status != http.StatusOK {
		t.Errorf("a read by address: %d %s, want 200", answer.status, answer.raw)
	}
	testTenant.control("POST", "/clock", jsonObject{"advance": "61m"})
	if got := countSharedMailboxes(); got != before+1 {
		t.Errorf("%d mailboxes are listed an hour later, want %d", got, before+1)
	}
}

func TestReplicasDisagree(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"domain_ms": 0, "graph_replicas": jsonObject{"lag_ms": 3_600_000, "answers": "alternate"}})
	testTenant.callGraph("POST", "/domains", jsonObject{"id": domain})
	statuses := map[int]bool{}
	for range 2 {
		statuses[testTenant.callGraph("GET", "/domains/"+domain, nil).status] = true
	}
	if !statuses[http.StatusOK] || !statuses[http.StatusNotFound] {
		t.Fatalf("two reads answered %v, want 200 and 404", statuses)
	}
}

// laggingObject is a kind of object that a lagging replica shows in an older state.
type laggingObject struct {
	name     string
	replicas string // name of the setting that makes reads lag
	// bootstrap is a member of the control call that creates the tenant. "" means "ready".
	bootstrap string
	setUp     func(*tenant) // creates the old state while no replica lags
	write     func(*tenant)
	read      func(*tenant) any
	old, new  any // what read returns before and after the write
	// writeAgain is a second write. Its answer contains wantText if the second write sees the first
	// write.
	writeAgain func(*tenant) response
	wantText   string
}

var laggingObjects = []laggingObject{
	{
		name: "accepted domains", replicas: "exchange_replicas",
		write: func(t *tenant) { t.addMailDomain("second.example") },
		read:  func(t *tenant) any { return len(t.mustRun("Get-AcceptedDomain", jsonObject{}).rows()) },
		old:   2, new: 3,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("New-Mailbox", mailboxParams("cara@second.example", "cara.s"))
		},
		wantText: "cara@second.example",
	},
	{
		name: "an accepted domain", replicas: "exchange_replicas",
		write: func(t *tenant) { t.addMailDomain("second.example") },
		read: func(t *tenant) any {
			return t.runCmdlet("Get-AcceptedDomain", jsonObject{"Identity": "second.example"}).status
		},
		old: http.StatusBadRequest, new: http.StatusOK,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": "second.example", "Enabled": false})
		},
		wantText: "selector1-second-example",
	},
	{
		name: "a new DKIM configuration", replicas: "exchange_replicas",
		write: func(t *tenant) { t.newDKIMConfig(domain) },
		read: func(t *tenant) any {
			return t.runCmdlet("Get-DkimSigningConfig", jsonObject{"Identity": domain}).status
		},
		old: http.StatusBadRequest, new: http.StatusOK,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": false})
		},
		wantText: "ADObjectAlreadyExistsException",
	},
	{
		name: "an enabled DKIM configuration", replicas: "exchange_replicas",
		setUp: func(t *tenant) { t.newDKIMConfig(domain); t.publishSelectorCNAMEs(domain) },
		write: func(t *tenant) {
			t.mustRun("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true})
		},
		read: func(t *tenant) any {
			return t.mustRun("Get-DkimSigningConfig", jsonObject{"Identity": domain}).valueAt("value", 0, "Enabled")
		},
		old: false, new: true,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("Set-DkimSigningConfig", jsonObject{"Identity": domain, "Enabled": true})
		},
		wantText: "no settings of '" + domain + "' have been modified",
	},
	{
		name: "a new rule", replicas: "exchange_replicas",
		write: func(t *tenant) { t.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain)) },
		read:  func(t *tenant) any { return len(t.mustRun("Get-TransportRule", jsonObject{}).rows()) },
		old:   0,
		new:   1,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
		},
		wantText: "already exists",
	},
	{
		name: "the senders of a rule", replicas: "exchange_replicas",
		setUp: func(t *tenant) {
			t.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
			t.newMailbox("ben@"+domain, "ben.d")
		},
		write: func(t *tenant) {
			t.mustRun("Set-TransportRule", jsonObject{"Identity": ruleName, "Name": "renamed", "From": []string{"ben@" + domain}})
		},
		read: func(t *tenant) any {
			return t.mustRun("Get-TransportRule", jsonObject{"Identity": ruleName}).valueAt("value", 0, "From")
		},
		old: []any{"anna@" + domain}, new: []any{"ben@" + domain},
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("Set-TransportRule", jsonObject{"Identity": ruleName, "Comments": "the rule has a new name"})
		},
		wantText: "ManagementObjectNotFoundException",
	},
	{
		name: "a removed rule", replicas: "exchange_replicas",
		setUp: func(t *tenant) { t.mustRun("New-TransportRule", ruleParams(ruleName, "anna@"+domain)) },
		write: func(t *tenant) { t.mustRun("Remove-TransportRule", jsonObject{"Identity": ruleName}) },
		read: func(t *tenant) any {
			return len(t.mustRun("Get-TransportRule", jsonObject{"Identity": ruleName}).rows())
		},
		old: 1, new: 0,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("Disable-TransportRule", jsonObject{"Identity": ruleName})
		},
		wantText: "ManagementObjectNotFoundException",
	},
	{
		name: "SMTP AUTH of the organization", replicas: "exchange_replicas",
		write: func(t *tenant) {
			t.mustRun("Set-TransportConfig", jsonObject{"SmtpClientAuthenticationDisabled": false})
		},
		read: func(t *tenant) any {
			return t.mustRun("Get-TransportConfig", jsonObject{}).valueAt("value", 0, "SmtpClientAuthenticationDisabled")
		},
		old: true, new: false,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("Set-TransportConfig", jsonObject{"SmtpClientAuthenticationDisabled": false})
		},
		wantText: "no settings of 'Transport Settings' have been modified",
	},
	{
		name: "the organization", replicas: "exchange_replicas", bootstrap: "dehydrated",
		write: func(t *tenant) { t.mustRun("Enable-OrganizationCustomization", jsonObject{}) },
		read: func(t *tenant) any {
			return t.mustRun("Get-OrganizationConfig", jsonObject{}).valueAt("value", 0, "IsDehydrated")
		},
		old: true, new: false,
		writeAgain: func(t *tenant) response {
			return t.runCmdlet("New-TransportRule", ruleParams(ruleName, "anna@"+domain))
		},
		wantText: ruleName,
	},
	{
		name: "role assignments", replicas: "graph_replicas",
		setUp: func(t *tenant) { t.revoke("exchange_role") },
		write: func(t *tenant) { t.assignExchange() },
		read:  countRoles,
		old:   0, new: 1,
		writeAgain: (*tenant).assignExchange,
		wantText:   "A conflicting object",
	},
	{
		name: "role assignments after a new consent", replicas: "graph_replicas",
		setUp: func(t *tenant) { t.revoke("exchange_role") },
		write: func(t *tenant) { t.consent() },
		read:  countRoles,
		old:   0, new: 1,
		writeAgain: (*tenant).assignExchange,
		wantText:   "A conflicting object",
	},
}

func countRoles(t *tenant) any {
	return len(t.callGraph("GET", "/roleManagement/directory/roleAssignments?$filter=principalId eq '"+t.principal()+"'", nil).rows())
}

// TestReadAfterWriteShowsOlderState writes an object of each kind. A lagging replica shows the old
// state until the lag has passed. A second write sees the first write at once.
func TestReadAfterWriteShowsOlderState(t *testing.T) {
	for _, object := range laggingObjects {
		t.Run(object.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant(jsonObject{"bootstrap": cmp.Or(object.bootstrap, "ready")})
			testTenant.addMailDomain(domain)
			testTenant.newMailbox("anna@"+domain, "anna.d")
			if object.setUp != nil {
				object.setUp(testTenant)
			}
			expectRead := func(when string, want any) {
				t.Helper()
				if got := object.read(testTenant); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: a read shows %v, want %v", when, got, want)
				}
			}
			testTenant.setBehaviour(jsonObject{object.replicas: jsonObject{"lag_ms": 3_600_000, "answers": "all"}})
			expectRead("before the write", object.old)
			object.write(testTenant)
			expectRead("at once", object.old)
			if answer := object.writeAgain(testTenant); !strings.Contains(string(answer.raw), object.wantText) {
				t.Errorf("a second write: %d %s, want the text %q", answer.status, answer.raw, object.wantText)
			}
			testTenant.control("POST", "/clock", jsonObject{"advance": "30m"})
			expectRead("after half of the lag", object.old)
			testTenant.control("POST", "/clock", jsonObject{"advance": "31m"})
			expectRead("after the lag", object.new)
		})
	}
}

// TestTransportConfigIsReadAsObject checks that Get-TransportConfig counts as a read of one object
// and not as a read of a list.
func TestTransportConfigIsReadAsObject(t *testing.T) {
	for answers, want := range map[string]bool{"lists": false, "objects": true} {
		testTenant := startSimulator(t).newConnectedTenant()
		testTenant.setBehaviour(jsonObject{"exchange_replicas": jsonObject{"lag_ms": 3_600_000, "answers": answers}})
		testTenant.mustRun("Set-TransportConfig", jsonObject{"SmtpClientAuthenticationDisabled": false})
		if got := testTenant.mustRun("Get-TransportConfig", jsonObject{}).valueAt("value", 0, "SmtpClientAuthenticationDisabled"); got != want {
			t.Errorf("the replica answers %s: SmtpClientAuthenticationDisabled is %v, want %v", answers, got, want)
		}
	}
}

// TestLaggingReplicaCountsTraceQueries checks that the quota of the message trace also applies
// while all reads lag.
func TestLaggingReplicaCountsTraceQueries(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	testTenant.setBehaviour(jsonObject{"trace_quota": 2, "exchange_replicas": jsonObject{"lag_ms": 3_600_000, "answers": "all"}})
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusBadRequest} {
		if answer := testTenant.runCmdlet("Get-MessageTraceV2", jsonObject{}); answer.status != want {
			t.Errorf("query %d: %d %s, want %d", i+1, answer.status, answer.raw, want)
		}
	}
}
