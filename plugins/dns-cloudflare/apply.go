// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	minTTL, maxTTL = 60, 86400
	// recordComment is the comment of new records, for people. The plugin does not read it.
	recordComment = "managed by tenantry"
)

// batchBody is the body of a batch request. Cloudflare applies it as one transaction in this order.
type batchBody struct {
	Deletes []recordDoc `json:"deletes,omitempty"`
	Patches []recordDoc `json:"patches,omitempty"`
	Posts   []recordDoc `json:"posts,omitempty"`
}

// Apply implements sdk.DNSProvider. A batch is a transaction, but it cannot require that the zone
// is unchanged. Therefore Apply holds the lock of the zone and reads the zone right before the
// batch.
func (p *provider) Apply(ctx context.Context, zone sdk.Zone, changes []sdk.Change) ([]sdk.RRSet, error) {
	if err := sdk.CheckChanges(zone.Name, changes); err != nil {
		return nil, err
	}
	release, err := p.locks.Hold(ctx, zone.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	records, err := p.listRecords(ctx, zone)
	if err != nil {
		return nil, err
	}
	current, err := recordSets(records)
	if err != nil {
		return nil, err
	}
	outstanding, err := sdk.Outstanding(withoutApexCNAME(zone, current), changes)
	if err != nil {
		return nil, err
	}
	if len(outstanding) > 0 {
		if current, err = p.write(ctx, zone, records, outstanding); err != nil {
			return nil, err
		}
	}
	return sdk.SetsAfter(current, changes), nil
}

// withoutApexCNAME returns the sets without a CNAME at the apex. Cloudflare always answers for such
// a CNAME with addresses, so it allows records such as MX and TXT beside the CNAME.
func withoutApexCNAME(zone sdk.Zone, sets []sdk.RRSet) []sdk.RRSet {
	return slices.DeleteFunc(slices.Clone(sets), func(s sdk.RRSet) bool { return s.Type == sdk.CNAME && s.Name == zone.Name })
}

// write sends the batch, reads the zone again and returns its sets. The batch may fail with
// errConflict, for example after an earlier attempt of the same write. In this case, write succeeds
// if the zone has the wanted sets. Otherwise it returns sdk.ZoneChanged, or an Unknown outcome if
// it cannot read the zone.
func (p *provider) write(ctx context.Context, zone sdk.Zone, records []recordDoc, changes []sdk.Change) ([]sdk.RRSet, error) {
	batch, err := newBatch(records, changes)
	if err != nil {
		return nil, err
	}
	var ignored struct{}
	_, err = p.call(ctx, http.MethodPost, "/zones/"+url.PathEscape(zone.ID)+"/dns_records/batch", batch, &ignored)
	switch {
	case err == nil:
		return sdk.ReadBack(ctx, p, zone, changes)
	case !errors.Is(err, errConflict):
		return nil, err
	}
	current, err := p.Records(ctx, zone)
	if err != nil {
		return nil, sdk.UnknownEffect("not_read_back")
	}
	for _, c := range changes {
		if !c.IsMade(current) {
			return nil, sdk.ZoneChanged()
		}
	}
	return current, nil
}

// newBatch returns the batch that makes the changes. records are all records of the zone.
func newBatch(records []recordDoc, changes []sdk.Change) (batchBody, error) {
	var batch batchBody
	for _, c := range changes {
		if err := batch.addChange(records, c); err != nil {
			return batchBody{}, err
		}
	}
	return batch, nil
}

// addChange adds the operations for one change. To replace a value, it changes an existing record,
// so that the record keeps the comment and tags of the zone's owner.
func (b *batchBody) addChange(records []recordDoc, change sdk.Change) error {
	var surplus []recordDoc
	missing := slices.Clone(change.After.Values) // contains a value twice if the set contains it twice
	ttl := 0                                     // from an existing record with the wanted TTL, so that an automatic TTL stays; otherwise 0
	for _, r := range records {
		if r.key() != sdk.PlainName(change.After.Name)+" "+string(change.After.Type) {
			continue
		}
		value, err := r.value()
		if err != nil {
			return sdk.BrokenAnswer("content_of_" + r.Type)
		}
		if r.ttlSeconds() == change.After.TTL {
			ttl = r.TTL
		}
		i := slices.Index(missing, value)
		if i < 0 {
			surplus = append(surplus, r)
			continue
		}
		missing = slices.Delete(missing, i, i+1)
		patch := recordDoc{ID: r.ID}
		if change.After.TTL != change.Before.TTL {
			patch.TTL = clampTTL(change.After.TTL)
		}
		if r.isVeiled() && !change.After.Veiled {
			patch = patch.unveiled()
		}
		if patch != (recordDoc{ID: r.ID}) {
			b.Patches = append(b.Patches, patch)
		}
	}
	if ttl == 0 {
		ttl = clampTTL(change.After.TTL)
	}
	for _, value := range missing {
		r, err := newRecordDoc(change.After, value, ttl)
		if err != nil {
			return err
		}
		if len(surplus) > 0 {
			r.ID, surplus = surplus[0].ID, surplus[1:]
			b.Patches = append(b.Patches, r)
			continue
		}
		r.Comment = recordComment
		b.Posts = append(b.Posts, r)
	}
	for _, r := range surplus {
		b.Deletes = append(b.Deletes, recordDoc{ID: r.ID})
	}
	return nil
}

// clampTTL returns the TTL that the API accepts and that is closest to ttlSeconds. For 0 or less,
// it returns the value that stands for an automatic TTL.
func clampTTL(ttlSeconds int) int {
	if ttlSeconds <= 0 {
		return automatic
	}
	return min(max(ttlSeconds, minTTL), maxTTL)
}

// newRecordDoc returns the API's document for one value. It disables proxying and flattening of a
// CNAME. Otherwise Cloudflare could answer with addresses, and mail platforms need the CNAME.
func newRecordDoc(s sdk.RRSet, value string, ttl int) (recordDoc, error) {
	record := recordDoc{Type: string(s.Type), Name: s.Name, TTL: ttl, Content: value}
	switch s.Type {
	case sdk.TXT:
		record.Content = sdk.QuoteText(value)
	case sdk.CNAME:
		record = record.unveiled()
	case sdk.MX:
		preference, host, _ := strings.Cut(value, " ")
		priority, err := strconv.Atoi(preference)
		if err != nil || host == "" {
			return record, sdk.RequestRefused("content_of_MX")
		}
		record.Priority, record.Content = &priority, host
	}
	return record, nil
}
