// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strings"
)

// transaction changes a copy of a zone's records, so that a refused batch has no effect.
type transaction struct {
	zone    string
	records []record
	serial  int
}

// apply executes a batch in the order of the API: deletes, patches, puts, posts. It returns the
// records of the operations, or the error of the first invalid operation.
func (t *transaction) apply(batch batchDoc) (batchDoc, error) {
	var result batchDoc
	for _, r := range batch.Deletes {
		i := t.find(r.ID)
		if i < 0 {
			return result, refusal{81044, "Record does not exist."}
		}
		result.Deletes = append(result.Deletes, t.records[i])
		t.records = slices.Delete(t.records, i, i+1)
	}
	for _, r := range append(slices.Clone(batch.Patches), batch.Puts...) {
		i := t.find(r.ID)
		if i < 0 {
			return result, refusal{81044, "Record does not exist."}
		}
		existing := t.records[i]
		t.records = slices.Delete(t.records, i, i+1)
		if slices.ContainsFunc(batch.Patches, func(p record) bool { return p.ID == r.ID }) {
			r = existing.applyPatch(r)
			result.Patches = append(result.Patches, r)
		} else {
			result.Puts = append(result.Puts, r)
		}
		if err := t.add(r); err != nil {
			return result, err
		}
	}
	for _, r := range batch.Posts {
		r.ID = newRecordID(&t.serial)
		if err := t.add(r); err != nil {
			return result, err
		}
		result.Posts = append(result.Posts, r)
	}
	return result, nil
}

func (t *transaction) find(id string) int {
	return slices.IndexFunc(t.records, func(r record) bool { return r.ID == id })
}

func (r record) applyPatch(patch record) record {
	if patch.Content != "" {
		r.Content = patch.Content
	}
	if patch.TTL != 0 {
		r.TTL = patch.TTL
	}
	if patch.Priority != nil {
		r.Priority = patch.Priority
	}
	if patch.Settings != nil {
		r.Settings, r.Proxied = patch.Settings, patch.Proxied
	}
	return r
}

// add validates a record and adds it. It fails with a refusal.
func (t *transaction) add(r record) error {
	switch {
	case !slices.Contains([]string{"A", "AAAA", "CNAME", "MX", "TXT", "NS"}, r.Type):
		return refusal{1004, "DNS Validation Error: type"}
	case r.Name != strings.ToLower(r.Name) || (r.Name != t.zone && !strings.HasSuffix(r.Name, "."+t.zone)):
		return refusal{1004, "DNS Validation Error: name"}
	case r.Content == "" || (r.Type == "MX") != (r.Priority != nil):
		return refusal{1004, "DNS Validation Error: content"}
	case r.TTL != 1 && (r.TTL < 60 || r.TTL > 86400):
		return refusal{9021, "Invalid TTL."}
	}
	for _, other := range t.records {
		switch same := other.Name == r.Name && !t.coexistsWithApexCNAME(r, other); {
		case same && r.Type == "CNAME" && other.Type != "NS":
			return refusal{81053, "An A, AAAA, or CNAME record with that host already exists."}
		case same && other.Type == "CNAME":
			return refusal{81054, "A CNAME record with that host already exists."}
		case same && other.Type == r.Type && other.Content == r.Content && mxPreference(other) == mxPreference(r) && other.TTL != r.TTL:
			return refusal{81057, "The record already exists."}
		case same && other.Type == r.Type && other.Content == r.Content && mxPreference(other) == mxPreference(r):
			return refusal{81058, "An identical record already exists."}
		}
	}
	t.records = append(t.records, r)
	return nil
}

// coexistsWithApexCNAME reports whether r is at the apex and exactly one of r and other is an A,
// AAAA or CNAME record. At the apex, a CNAME conflicts only with these types.
func (t *transaction) coexistsWithApexCNAME(r, other record) bool {
	conflictingTypes := []string{"A", "AAAA", "CNAME"}
	return r.Name == t.zone && slices.Contains(conflictingTypes, r.Type) != slices.Contains(conflictingTypes, other.Type)
}

func mxPreference(r record) int {
	if r.Priority == nil {
		return 0
	}
	return *r.Priority
}
