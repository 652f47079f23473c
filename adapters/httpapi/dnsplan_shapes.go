// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenantry/tenantry/app/domains"
	"github.com/tenantry/tenantry/core/dns"
)

type dnsPlan struct {
	DomainID        string           `json:"domain_id" format:"uuid" doc:"The domain's id."`
	DomainName      string           `json:"domain_name" doc:"The domain, in A-labels."`
	DNSProvider     planProvider     `json:"dns_provider" doc:"Who serves the domain's zone."`
	Read            planRead         `json:"read" doc:"How the read went on which the plan rests."`
	DesiredRecords  []desiredRecord  `json:"desired_records" doc:"The records that the domain is to have, as the mail platform names them, and a DMARC record. What it has not named yet is not there; most it names after verification."`
	ObservedRecords []observedRecord `json:"observed_records" doc:"What stands at the names that the plan looks at."`
	Actions         []planAction     `json:"actions" doc:"What would be done about each of the desired records. Conflicts are settled by a person, never written."`
	BlockingChanges []planAction     `json:"blocking_changes" doc:"The actions that block: as long as there are any, nothing is written."`
	SafeToApply     bool             `json:"safe_to_apply" doc:"Whether the changes may be written: the read is reliable and nothing blocks."`
	CheckedAt       time.Time        `json:"checked_at" doc:"The time of this read."`
}

type planProvider struct {
	ID          *string  `json:"id" doc:"cloudflare, powerdns or another that this service can write to, else null."`
	Name        *string  `json:"name" doc:"Its name for people, or the domain of its name servers; null when several serve the zone, or nobody is known to."`
	Nameservers []string `json:"nameservers" doc:"The name servers to which the zone is delegated."`
	Detected    bool     `json:"detected" doc:"Whether it is known who serves the zone."`
	Supported   bool     `json:"supported" doc:"Whether this service can write there."`
}

type planRead struct {
	Reliable            bool    `json:"reliable" doc:"Whether enough of the name servers answered everything, and the same."`
	Reason              *string `json:"reason" doc:"Why the read is not reliable, as zone_cut_unknown, not_delegated, no_authoritative_answer, single_server_answered, servers_disagree, type_unknown, dnssec_bogus, read_deadline, recursive_only, or provider_unavailable when the account's DNS provider did not answer; of a reliable one what is wrong with the zone all the same, as lame_delegation, server_unreachable, delegation_mismatch, tcp_blocked, ns_address_forbidden, wildcard_ambiguous or multi_provider, or null."`
	NameserversAsked    int     `json:"nameservers_asked" doc:"How many name servers were asked."`
	NameserversAgreeing int     `json:"nameservers_agreeing" doc:"How many of them serve the zone, and alike."`
}

type desiredRecord struct {
	Purpose    string `json:"purpose" enum:"verification,mx,spf,autodiscover,dmarc,dkim_selector1,dkim_selector2" doc:"What it is for."`
	RecordType string `json:"record_type" enum:"TXT,MX,CNAME" doc:"Its type."`
	Name       string `json:"name" doc:"Its name, fully qualified, without the final dot."`
	Content    string `json:"content" doc:"Its content: the text of a TXT, unquoted; preference and host of an MX; the target of a CNAME."`
	TTL        int    `json:"ttl" doc:"Seconds."`
}

type observedRecord struct {
	RecordType string   `json:"record_type" doc:"The type."`
	Name       string   `json:"name" doc:"The name, fully qualified, without the final dot."`
	Contents   []string `json:"contents" doc:"All contents that stand there, in the form of the desired ones. Octets that are no text are written \\DDD."`
	TTL        int      `json:"ttl" doc:"Seconds."`
}

type planAction struct {
	Action     string       `json:"action" enum:"create,update,preserve,conflict" doc:"create: nothing of the kind is there. update: our part of what is there is added or replaced. preserve: it is as it should be and stays. conflict: a person decides."`
	RecordType string       `json:"record_type" enum:"TXT,MX,CNAME" doc:"The type of the record."`
	Name       string       `json:"name" doc:"Its name, fully qualified, without the final dot."`
	Desired    *string      `json:"desired" doc:"The content that is to stand there, of an SPF record with all that stays of the present one; null while the mail platform has named none."`
	Observed   []string     `json:"observed" doc:"The contents there that concern it."`
	Reason     planReason   `json:"reason"`
	Notes      []planRemark `json:"notes" doc:"What else to know, as stable words."`
	Message    string       `json:"message" doc:"Reason and notes in sentences, and what to do."`
	Blocking   bool         `json:"blocking" doc:"Whether nothing is written before this is settled."`
}

// planReason and planRemark are enums that core defines.
type (
	planReason dns.Reason
	planRemark dns.Note
)

// Schema documents the reasons.
func (planReason) Schema(huma.Registry) *huma.Schema {
	return enumSchema("Why, as a stable word.", dns.Reasons())
}

// Schema documents the notes.
func (planRemark) Schema(huma.Registry) *huma.Schema {
	return enumSchema("What else to know, as a stable word.", dns.Notes())
}

func enumSchema[W interface {
	~string
	Explain() string
}](about string, words []W) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: about + "\n"}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
		s.Description += "\n- `" + string(w) + "`: " + w.Explain()
	}
	return s
}

func planOf(v domains.Survey) dnsPlan {
	p := v.Plan
	return dnsPlan{
		DomainID: v.Domain.ID, DomainName: v.Domain.Name, DNSProvider: providerOf(v), Read: readOf(v.Sight),
		DesiredRecords: each(p.Desired, desiredOf), ObservedRecords: each(p.Observed, observedOf),
		Actions: each(p.Items, actionOf), BlockingChanges: each(p.Blocking(), actionOf),
		SafeToApply: p.SafeToApply(), CheckedAt: p.At.UTC().Truncate(time.Microsecond),
	}
}

func providerOf(v domains.Survey) planProvider {
	return planProvider{ID: textOrNil(v.Holder.Provider.ID), Name: textOrNil(v.Holder.Title), Detected: v.Holder.Title != "", Supported: v.Holder.Provider.ID != "",
		Nameservers: each(v.Sight.Delegation, func(name string) string { return name })}
}

func readOf(s dns.Sight) planRead {
	why := s.Reason
	if why == "" && len(s.Warnings) > 0 {
		why = s.Warnings[0]
	}
	return planRead{Reliable: s.Complete, Reason: textOrNil(why), NameserversAsked: s.Asked(), NameserversAgreeing: s.Agreeing()}
}

func desiredOf(d dns.Desired) desiredRecord {
	return desiredRecord{Purpose: string(d.Purpose), RecordType: string(d.Type), Name: d.Name, Content: dns.Shown(d.Value()), TTL: d.TTL}
}

func observedOf(s dns.RRSet) observedRecord {
	return observedRecord{RecordType: string(s.Type), Name: s.Name, Contents: each(s.Values, dns.Shown), TTL: s.TTL}
}

func actionOf(i dns.Item) planAction {
	return planAction{
		Action: string(i.Action), RecordType: string(i.Type), Name: i.Name, Desired: textOrNil(dns.Shown(i.Desired)), Observed: each(i.Observed, dns.Shown),
		Reason: planReason(i.Reason), Notes: each(i.Notes, func(n dns.Note) planRemark { return planRemark(n) }), Message: i.Explain(), Blocking: i.Blocking,
	}
}

type domainAutomation struct {
	DomainID   string     `json:"domain_id" format:"uuid" doc:"The domain's id."`
	Automation automation `json:"automation" doc:"Whether its records can be written for the account."`
}

type automation struct {
	Provider             *string `json:"provider" doc:"The DNS provider's id when this service can write there, else null."`
	ProviderSupported    bool    `json:"provider_supported" doc:"Whether this service can write at the provider that serves the domain's zone."`
	ConnectionPresent    bool    `json:"connection_present" doc:"Whether the account has a connection to that provider. Whether it reaches the zone, action_required_code tells."`
	SafeToApply          bool    `json:"safe_to_apply" doc:"Whether the changes of the plan may be written: the read is reliable and nothing blocks."`
	ManualActionRequired bool    `json:"manual_action_required" doc:"Whether a person has to do something first."`
	ActionRequiredCode   *string `json:"action_required_code" enum:"dns_provider_unsupported,dns_connection_required,dns_credential_rejected,dns_read_unreliable,dns_conflict" doc:"What has to be done, null when nothing has to."`
	Message              string  `json:"message" doc:"The same in words."`
}

func automationOf(v domains.Survey) domainAutomation {
	a := v.Automation()
	return domainAutomation{DomainID: v.Domain.ID, Automation: automation{
		Provider: textOrNil(a.Provider.ID), ProviderSupported: a.Provider.ID != "", ConnectionPresent: a.Connected, SafeToApply: a.Safe,
		ManualActionRequired: a.Required != "", ActionRequiredCode: textOrNil(string(a.Required)), Message: a.Message,
	}}
}
