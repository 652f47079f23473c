// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"maps"
	"slices"
)

// Reason is a stable word for why a plan decides as it does on an item.
type Reason string

// The reasons for values that are written or preserved.
const (
	ReasonMissing           Reason = "missing"
	ReasonPresent           Reason = "present"
	ReasonOwnSuperseded     Reason = "own_superseded"
	ReasonMXMigration       Reason = "mx_platform_migration"
	ReasonSPFMerged         Reason = "spf_merged"
	ReasonSPFDuplicates     Reason = "spf_duplicates"
	ReasonSPFIndirect       Reason = "spf_indirect"
	ReasonDKIMMigration     Reason = "dkim_platform_migration"
	ReasonDKIMFlattened     Reason = "dkim_flattened"
	ReasonDMARCPresent      Reason = "dmarc_present"
	ReasonDMARCAlias        Reason = "dmarc_alias"
	ReasonDMARCInherited    Reason = "dmarc_inherited"
	ReasonAutodiscoverTaken Reason = "autodiscover_taken"
)

// The reasons for conflicts, which a person must resolve.
const (
	ReasonAliasAtDomain   Reason = "cname_at_domain"
	ReasonMXOther         Reason = "mx_other_provider"
	ReasonMXNull          Reason = "mx_null"
	ReasonMXBroken        Reason = "mx_broken"
	ReasonMXMixed         Reason = "mx_mixed"
	ReasonSPFMultiple     Reason = "spf_multiple"
	ReasonSPFSyntax       Reason = "spf_syntax"
	ReasonSPFNegated      Reason = "spf_include_negated"
	ReasonSPFPermissive   Reason = "spf_permissive"
	ReasonSPFNoMail       Reason = "spf_was_no_mail"
	ReasonSPFLookups      Reason = "spf_lookup_limit"
	ReasonSPFUnknown      Reason = "spf_lookups_unknown"
	ReasonDKIMOtherTenant Reason = "dkim_other_tenant"
	ReasonDKIMTaken       Reason = "dkim_cname_taken"
	ReasonDKIMText        Reason = "dkim_txt_present"
	ReasonDKIMDelegated   Reason = "dkim_delegated"
	ReasonDMARCMultiple   Reason = "dmarc_multiple"
	ReasonDMARCSyntax     Reason = "dmarc_syntax"
	ReasonDMARCDelegated  Reason = "dmarc_delegated"
)

// Note is a remark on an item that does not affect the decision.
type Note string

// The notes.
const (
	NoteWildcard        Note = "wildcard_overridden"
	NoteTXTLarge        Note = "txt_set_large"
	NoteMXPreference    Note = "mx_preference"
	NoteSPFNearLimit    Note = "spf_lookups_near_limit"
	NoteSPFVoid         Note = "spf_void_limit"
	NoteSPFBroken       Note = "spf_reference_broken"
	NoteSPFLong         Note = "spf_long"
	NoteSPFPtr          Note = "spf_ptr"
	NoteSPFNeutral      Note = "spf_neutral"
	NoteSPFPermissive   Note = "spf_permissive"
	NoteSPFUnknown      Note = "spf_lookups_unknown"
	NoteDMARCStrict     Note = "dmarc_strict"
	NoteDMARCUnenforced Note = "dmarc_no_policy"
)

// Explain returns the reason as a sentence for the domain's owner.
func (r Reason) Explain() string { return reasonSentences[r] }

// Explain returns the note as a sentence for the domain's owner.
func (n Note) Explain() string { return noteSentences[n] }

// Explain returns the item's reason and notes as sentences for the domain's owner.
func (i Item) Explain() string {
	all := i.Reason.Explain()
	for _, n := range i.Notes {
		all += " " + n.Explain()
	}
	return all
}

// Reasons returns all reasons that an item may have, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasonSentences)) }

// Notes returns all notes that an item may have, sorted.
func Notes() []Note { return slices.Sorted(maps.Keys(noteSentences)) }

var noteSentences = map[Note]string{
	NoteWildcard:        "A wildcard answers for this name until the record is there; then it no longer does.",
	NoteTXTLarge:        "The texts at this name come to more than 8192 octets, which some DNS providers do not take.",
	NoteMXPreference:    "Its preference is another than the mail platform's, which does no harm.",
	NoteSPFNearLimit:    "It needs nine or ten of the ten DNS look-ups that receivers make.",
	NoteSPFVoid:         "More than two of the names in it do not exist, which some receivers take as an error.",
	NoteSPFBroken:       "It refers to a name that has no valid SPF record, which receivers may take as an error.",
	NoteSPFLong:         "It is longer than 450 octets, which some receivers do not get in one packet.",
	NoteSPFPtr:          "It uses ptr, which is slow and discouraged.",
	NoteSPFNeutral:      "It ends with ?all, which says nothing about other senders.",
	NoteSPFPermissive:   "It lets everyone send (+all).",
	NoteSPFUnknown:      "A name in it did not answer, so its look-ups could not be counted.",
	NoteDMARCStrict:     "Its policy is strict: mail that is sent before DKIM is enabled may be refused.",
	NoteDMARCUnenforced: "It has no valid policy, so receivers treat it as p=none.",
}

var reasonSentences = map[Reason]string{
	ReasonMissing:           "The record does not exist yet.",
	ReasonPresent:           "The record is as it should be.",
	ReasonOwnSuperseded:     "An earlier record of ours makes room for the one the mail platform asks for now.",
	ReasonMXMigration:       "The mail platform's earlier host for this domain is replaced by its present one.",
	ReasonSPFMerged:         "The mail platform is added to the one SPF record; all else in it stays.",
	ReasonSPFDuplicates:     "The same SPF record stands there more than once; one is kept.",
	ReasonSPFIndirect:       "The SPF record allows the mail platform by way of another name.",
	ReasonDKIMMigration:     "The selector points to an earlier target of the same tenant and is moved to the present one.",
	ReasonDKIMFlattened:     "The DNS provider answers with the key itself in place of the CNAME; switch flattening or proxying off there.",
	ReasonDMARCPresent:      "The domain has a DMARC record of its own, which stays as it is.",
	ReasonDMARCAlias:        "The DMARC record is a CNAME to another name, which stays as it is.",
	ReasonDMARCInherited:    "The DMARC record of a name above covers the domain; a record here could weaken it.",
	ReasonAutodiscoverTaken: "Something else stands at the autodiscover name. Sending does not need it.",
	ReasonAliasAtDomain:     "The domain itself is a CNAME, and no mail record may stand beside one. Replace it by address records.",
	ReasonMXOther:           "Mail for the domain goes to another provider. Remove its MX records if the mail platform shall take over.",
	ReasonMXNull:            "The null MX says that the domain takes no mail. Remove it if it shall.",
	ReasonMXBroken:          "An MX record points to something that cannot take mail. Correct or remove it.",
	ReasonMXMixed:           "Other hosts stand beside the mail platform's MX, so replies may go elsewhere.",
	ReasonSPFMultiple:       "There are several SPF records, which receivers take as an error. Leave one.",
	ReasonSPFSyntax:         "Receivers cannot read the SPF record. Correct it.",
	ReasonSPFNegated:        "The SPF record names the mail platform with a qualifier that does not let its mail pass. Remove the qualifier.",
	ReasonSPFPermissive:     "The SPF record lets everyone send (+all). Correct it; nothing is written.",
	ReasonSPFNoMail:         "The SPF record says that the domain sends no mail. Remove it if the domain shall send.",
	ReasonSPFLookups:        "With the mail platform the SPF record needs more than ten DNS look-ups, which receivers refuse. Remove a term.",
	ReasonSPFUnknown:        "A name in the SPF record did not answer, so its look-ups cannot be counted. Try again, or remove the name.",
	ReasonDKIMOtherTenant:   "The selector points to another tenant, whose signatures would stop verifying. Remove it if that tenant no longer sends.",
	ReasonDKIMTaken:         "The selector is a CNAME to someone else's key. Remove it if it is not used.",
	ReasonDKIMText:          "Other records stand at the selector, and a CNAME may not stand beside them. Remove them if they are not used.",
	ReasonDKIMDelegated:     "The names below _domainkey are delegated to other name servers. Publish the CNAME there.",
	ReasonDMARCMultiple:     "There are several DMARC records, so receivers apply none. Leave one.",
	ReasonDMARCSyntax:       "Receivers cannot read the DMARC record. Correct it.",
	ReasonDMARCDelegated:    "The name _dmarc is delegated to other name servers. Publish the record there.",
}
