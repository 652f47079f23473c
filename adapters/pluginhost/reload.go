// SPDX-License-Identifier: Apache-2.0

package pluginhost

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/panics"
)

// Watch compares the catalog once per interval with the catalog that New or the last Reload read.
// If the two differ, it calls Reload. It logs errors, and returns when ctx ends.
func (h *Host) Watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !h.hasCatalogChanged() {
			continue
		}
		if err := h.Reload(); err != nil {
			h.options.Log.ErrorContext(ctx, "not all changes of the plugin catalog could be applied", "error", err)
		}
	}
}

func (h *Host) hasCatalogChanged() bool {
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	return catalogSum(h.options.Dir) != h.lastReadSum
}

// catalogSum returns the checksum of the catalog file, or the checksum of an empty text if the file
// cannot be read.
func catalogSum(dir string) [sha256.Size]byte {
	text, err := os.ReadFile(filepath.Join(dir, catalogFile))
	if err != nil {
		text = nil
	}
	return sha256.Sum256(text)
}

// Reload applies the changes of the catalog since New or the last Reload. If the entry of a plugin
// has changed, Reload starts the new version before it stops the old version. If the new process is
// healthy and describes itself as the catalog does, the host sends all further calls to it. The old
// process finishes its calls in progress and is then stopped. Otherwise the old version stays in
// use, Reload fails, and later calls of Reload ignore the entry until it changes.
//
// If the catalog no longer has a plugin, further calls to the plugin fail. If the plugin is added
// again with a different entry, Reload starts it. If that start fails, Reload fails, and later
// calls of the plugin start it again. If the catalog has a new plugin, it runs only after a restart
// of the service. A plugin whose kind has changed counts as removed and as new.
func (h *Host) Reload() error {
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	h.lastReadSum = catalogSum(h.options.Dir)
	entries, err := readCatalog(h.options.Dir)
	if err != nil {
		return err
	}
	errs := make([]error, len(entries))
	var group panics.Group
	for n, e := range entries {
		s, ok := h.plugins[e.Name]
		if !ok || s.kind != e.Kind {
			h.options.Log.Info("the plugin is new in the catalog and is used after a restart", "plugin", e.Name)
			continue
		}
		group.Go(func() { errs[n] = s.upgrade(e) })
	}
	for name, s := range h.plugins {
		if !slices.ContainsFunc(entries, func(e CatalogEntry) bool { return e.Name == name && e.Kind == s.kind }) {
			s.remove()
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// upgrade makes the plugin run the entry wanted. It does nothing if wanted is the entry that was
// rejected last. It starts no process if wanted is the current entry, but undoes a removal.
func (s *supervisor) upgrade(wanted CatalogEntry) error {
	s.mu.Lock()
	if s.entry == wanted && s.wasRemoved {
		s.wasRemoved = false // the same plugin was added again
	}
	if s.isClosed || s.entry == wanted || s.rejected == wanted {
		s.mu.Unlock()
		return nil
	}
	replaced := make(chan error, 1)
	// replace runs in s.background, so that close waits until the new process has exited.
	s.background.Go(func() { replaced <- panics.Catch(func() error { return s.replace(wanted) }) })
	s.mu.Unlock()
	return <-replaced
}

// replace starts a process of the entry wanted, and makes it the process that executes calls. If
// that fails, replace stores wanted as the rejected entry. If the plugin was removed, its old entry
// must not run again. In this case wanted becomes the current entry, as after a restart of the
// service, and the failure delays the next start.
func (s *supervisor) replace(wanted CatalogEntry) error {
	i, err := s.tryLaunch(wanted)
	if err == nil && i.description.Version != wanted.Version {
		i.dispose(0)
		err = fmt.Errorf("it reports version %.60q, but the catalog has %q", i.description.Version, wanted.Version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed:
		if err == nil {
			i.dispose(0)
		}
		return nil
	case err != nil && s.wasRemoved:
		s.entry, s.wasRemoved, s.consecutiveFailures = wanted, false, 0
		s.recordFailure(err)
		s.host.reportChange(s.name)
		return fmt.Errorf("plugin %s was added again: %w", s.name, err)
	case err != nil:
		s.rejected = wanted // lastError stays, because it is the reason why calls of the current version fail
		s.log.Error("the new version is not healthy, so the plugin stays as it is", "error", err, "version", s.entry.Version, "rejected", wanted.Version)
		return fmt.Errorf("plugin %s stays at version %s: %w", s.name, s.entry.Version, err)
	}
	replacedEntry, replacedProcess := s.entry, s.running
	s.entry, s.previous, s.rejected, s.wasRemoved = wanted, &replacedEntry, CatalogEntry{}, false
	s.consecutiveFailures, s.retryAt = 0, time.Time{}
	s.setRunning(i)
	s.drain(replacedProcess)
	s.host.reportChange(s.name)
	return nil
}

// remove makes all further calls fail, and drains the process. It forgets the rejected entry, so
// that upgrade tries this entry when the plugin is added again.
func (s *supervisor) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wasRemoved {
		return
	}
	s.wasRemoved, s.previous, s.rejected = true, nil, CatalogEntry{}
	removedProcess := s.running
	s.running = nil
	s.drain(removedProcess)
	s.log.Info("the plugin was removed from the catalog")
}

func (s *supervisor) isRemoved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wasRemoved
}

// drain stops a replaced or removed process as soon as its calls have ended. It stops the process
// after DrainTimeout at the latest, or when the host is closed. The caller holds s.mu.
func (s *supervisor) drain(i *instance) {
	if i == nil {
		return
	}
	i.drained = make(chan struct{})
	if i.calls == 0 {
		close(i.drained)
	}
	s.goLogged(func() {
		timeout := time.NewTimer(s.policy.DrainTimeout)
		defer timeout.Stop()
		select {
		case <-i.drained:
		case <-timeout.C:
		case <-s.closing:
		}
		i.process.Stop(s.policy.StopGrace)
	})
}

// release ends the use of a process that acquire returned.
func (s *supervisor) release(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(i)
}

// releaseLocked does the work of release. The caller holds s.mu.
func (s *supervisor) releaseLocked(i *instance) {
	if i.calls--; i.calls == 0 && i.isDraining() {
		close(i.drained)
	}
}
