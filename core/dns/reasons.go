// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"maps"
	"slices"
)

// Reason is a stable code that says why a plan decided as it did on an item.
type Reason string

// The reasons for values that are written or preserved.
const (
	ReasonMissing        Reason = "missing"
	ReasonPresent        Reason = "present"
	ReasonOwnSuperseded  Reason = "own_superseded"
	ReasonMXMigration    Reason = "mx_platform_migration"
	ReasonSPFMerged      Reason = "spf_merged"
	ReasonSPFDuplicates  Reason = "spf_duplicates"
	ReasonSPFIndirect    Reason = "spf_indirect"
	ReasonDKIMMigration  Reason = "dkim_platform_migration"
	ReasonDKIMFlattened  Reason = "dkim_flattened"
	ReasonDKIMProxied    Reason = "dkim_proxied"
	ReasonDMARCPresent   Reason = "dmarc_present"
	ReasonDMARCAlias     Reason = "dmarc_alias"
	ReasonDMARCInherited Reason = "dmarc_inherited"
)

// The reasons for conflicts. A person must resolve only the conflicts whose item is Blocking.
const (
	ReasonAliasAtDomain     Reason = "cname_at_domain"
	ReasonMXOther           Reason = "mx_other_provider"
	ReasonMXNull            Reason = "mx_null"
	ReasonMXBroken          Reason = "mx_broken"
	ReasonMXMixed           Reason = "mx_mixed"
	ReasonSPFMultiple       Reason = "spf_multiple"
	ReasonSPFSyntax         Reason = "spf_syntax"
	ReasonSPFNegated        Reason = "spf_include_negated"
	ReasonSPFPermissive     Reason = "spf_permissive"
	ReasonSPFNoMail         Reason = "spf_was_no_mail"
	ReasonSPFLookups        Reason = "spf_lookup_limit"
	ReasonSPFUnknown        Reason = "spf_lookups_unknown"
	ReasonDKIMOtherTenant   Reason = "dkim_other_tenant"
	ReasonDKIMTaken         Reason = "dkim_cname_taken"
	ReasonDKIMText          Reason = "dkim_txt_present"
	ReasonDKIMDelegated     Reason = "dkim_delegated"
	ReasonDMARCMultiple     Reason = "dmarc_multiple"
	ReasonDMARCSyntax       Reason = "dmarc_syntax"
	ReasonDMARCDelegated    Reason = "dmarc_delegated"
	ReasonDMARCProxied      Reason = "dmarc_proxied"
	ReasonAutodiscoverTaken Reason = "autodiscover_taken"
)

// Note is a remark on an item. It does not affect the decision. NoteSPFPermissive and
// NoteSPFUnknown have the codes of two reasons, because in other plans the same problems are
// conflicts.
type Note string

// The notes.
const (
	NoteWildcard      Note = "wildcard_overridden"
	NoteTXTLarge      Note = "txt_set_large"
	NoteProxied       Note = "proxied"
	NoteMXPreference  Note = "mx_preference"
	NoteSPFNearLimit  Note = "spf_lookups_near_limit"
	NoteSPFVoid       Note = "spf_void_limit"
	NoteSPFBroken     Note = "spf_reference_broken"
	NoteSPFLong       Note = "spf_long"
	NoteSPFPtr        Note = "spf_ptr"
	NoteSPFNeutral    Note = "spf_neutral"
	NoteSPFPermissive Note = "spf_permissive"
	NoteSPFUnknown    Note = "spf_lookups_unknown"
	NoteDMARCStrict   Note = "dmarc_strict"
	NoteDMARCNoPolicy Note = "dmarc_no_policy"
)

// Explain returns the reason as one or more sentences for the domain's owner.
func (r Reason) Explain() string { return reasonSentences[r] }

// Explain returns the note as one or more sentences for the domain's owner.
func (n Note) Explain() string { return noteSentences[n] }

// Explain returns the item's reason and notes as sentences for the domain's owner.
func (i Item) Explain() string {
	sentences := i.Reason.Explain()
	for _, n := range i.Notes {
		sentences += " " + n.Explain()
	}
	return sentences
}

// Reasons returns all reasons that an item may have, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasonSentences)) }

// Notes returns all notes that an item may have, sorted.
func Notes() []Note { return slices.Sorted(maps.Keys(noteSentences)) }

var noteSentences = map[Note]string{
	NoteWildcard:      "A wildcard record currently answers for this name. It stops doing so once this record exists.",
	NoteTXTLarge:      "The TXT records at this name exceed 8192 octets in total, which some DNS providers reject.",
	NoteProxied:       "The DNS provider proxies or flattens it, so its name servers return other records. Disable that there.",
	NoteMXPreference:  "Its preference differs from the mail platform's, which is harmless.",
	NoteSPFNearLimit:  "It needs nine or ten of the ten DNS lookups that receivers allow.",
	NoteSPFVoid:       "More than two of the names in it have no TXT record, which some receivers treat as an error.",
	NoteSPFBroken:     "It refers to a name that has no valid SPF record, which receivers may treat as an error.",
	NoteSPFLong:       "It is longer than 450 octets, which may not fit into one packet for some receivers.",
	NoteSPFPtr:        "It uses ptr, which is slow and discouraged.",
	NoteSPFNeutral:    "It ends with ?all, which says nothing about other senders.",
	NoteSPFPermissive: "It allows everyone to send (+all).",
	NoteSPFUnknown:    "A DNS query for a name in it failed, so the record's DNS lookups could not be counted.",
	NoteDMARCStrict:   "Its policy or its alignment is strict: mail that is sent before DKIM is enabled may fail DMARC and then be refused.",
	NoteDMARCNoPolicy: "It has no valid policy, so receivers treat it as p=none.",
}

var reasonSentences = map[Reason]string{
	ReasonMissing:           "The record does not exist yet.",
	ReasonPresent:           "The record is correct.",
	ReasonOwnSuperseded:     "A record that this service wrote earlier is replaced by the one that the mail platform requires now.",
	ReasonMXMigration:       "Old MX records are replaced by the current one. Old records are those that the mail platform specified earlier, and left-over verification records under msv1.invalid.",
	ReasonSPFMerged:         "The mail platform is added to the existing SPF record. The rest of the record stays unchanged.",
	ReasonSPFDuplicates:     "The same SPF record exists more than once. One copy is kept.",
	ReasonSPFIndirect:       "The SPF record allows the mail platform indirectly, through another name.",
	ReasonDKIMMigration:     "The selector points to an earlier target of the same tenant and is changed to the current one.",
	ReasonDKIMFlattened:     "The DNS provider returns the key itself instead of the CNAME. Disable flattening or proxying there.",
	ReasonDKIMProxied:       "The CNAME is correct, but the DNS provider proxies or flattens it, so its name servers do not return it. The change switches this off for the record.",
	ReasonDMARCPresent:      "The domain already has a DMARC record, which stays unchanged.",
	ReasonDMARCAlias:        "The DMARC record is a CNAME to another name and stays unchanged.",
	ReasonDMARCInherited:    "The DMARC record of a parent domain covers this domain. A record here could weaken it.",
	ReasonAutodiscoverTaken: "Another record exists at the autodiscover name. Sending does not need autodiscover.",
	ReasonAliasAtDomain:     "The domain itself is a CNAME, and a CNAME cannot coexist with mail records. Replace it with address records.",
	ReasonMXOther:           "Mail for the domain goes to another provider. Remove that provider's MX records if the mail platform is to receive the mail.",
	ReasonMXNull:            "The null MX states that the domain does not accept mail. Remove it if the domain is to receive mail.",
	ReasonMXBroken:          "An MX record is invalid or points to a host that cannot receive mail. Correct or remove the record.",
	ReasonMXMixed:           "Other hosts are listed in MX records besides the mail platform's, so replies may be delivered elsewhere.",
	ReasonSPFMultiple:       "There are several SPF records, which receivers treat as an error. Keep only one.",
	ReasonSPFSyntax:         "The domain's SPF record, or the one that the mail platform specifies, has a syntax error. Correct the domain's record if it has the error.",
	ReasonSPFNegated:        "The SPF record names the mail platform with a qualifier other than +, so its mail does not pass SPF. Remove the qualifier.",
	ReasonSPFPermissive:     "The SPF record allows everyone to send (+all), so it is not changed. Correct it.",
	ReasonSPFNoMail:         "The SPF record states that the domain sends no mail. Remove it if the domain is to send.",
	ReasonSPFLookups:        "With the mail platform added, the SPF record needs more than ten DNS lookups, which receivers reject. Remove a term.",
	ReasonSPFUnknown:        "A DNS query for a name in the SPF record failed, so the record's DNS lookups cannot be counted. Try again, or remove the name.",
	ReasonDKIMOtherTenant:   "The selector points to another tenant, whose signatures would become invalid. Remove the record if that tenant no longer sends.",
	ReasonDKIMTaken:         "The selector is a CNAME to someone else's key, or it has several CNAMEs. Remove each CNAME that is not used.",
	ReasonDKIMText:          "Other records exist at the selector, and a CNAME cannot coexist with them. Remove them if they are not used.",
	ReasonDKIMDelegated:     "The selector, or the name _domainkey above it, is delegated to other name servers. Publish the CNAME there.",
	ReasonDMARCMultiple:     "There are several DMARC records, so receivers ignore all of them. Keep only one.",
	ReasonDMARCSyntax:       "The DMARC record has a syntax error. Correct it.",
	ReasonDMARCDelegated:    "The name _dmarc is delegated to other name servers. Publish the record there.",
	ReasonDMARCProxied:      "The DMARC record is a CNAME that the DNS provider proxies or flattens, and its name servers return no DMARC record at this name. Disable that there.",
}
