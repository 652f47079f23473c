// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/proto"
	"github.com/tenantry/tenantry/ports"
)

const (
	// maxScopeBytes and maxSharedWait limit what a plugin can store at the host.
	maxScopeBytes = 256
	maxSharedWait = time.Hour
	// maxWaitRequests is how many requests of a process the host answers at the same time.
	maxWaitRequests = 64
	// waitAnswerTimeout is how long a plugin waits for an answer of the host. Without an answer,
	// the plugin uses the waits of its own process.
	waitAnswerTimeout = 5 * time.Second
)

// ShareWaits answers the plugin's requests about waits from store, in the background, until the
// process ends. It returns when the plugin has accepted the stream, or has answered that it shares
// no waits. It fails if the stream cannot be opened, or if the plugin does not answer before ctx
// ends.
func (p *Process) ShareWaits(ctx context.Context, store ports.Waits) error {
	streamCtx, cancel := context.WithCancel(context.Background())
	stopAfter := context.AfterFunc(ctx, cancel)
	stream, err := proto.NewPluginClient(p.conn).ShareWaits(streamCtx)
	if err == nil {
		_, err = stream.Header() // blocks until the plugin has accepted or refused the stream
	}
	switch inTime := stopAfter(); {
	case status.Code(err) == codes.Unimplemented:
		cancel()
		return nil
	case !inTime || err != nil:
		cancel()
		return fmt.Errorf("share waits: %w", cmp.Or(fromStatus(ctx, err), ctx.Err()))
	}
	panics.Go(func() {
		defer cancel()
		answerWaits(streamCtx, stream, store)
	}, func(*panics.Error) {})
	return nil
}

type waitStream interface {
	Send(*proto.WaitAnswer) error
	Recv() (*proto.WaitRequest, error)
}

// answerWaits answers requests until the stream ends. Requests are answered concurrently, so that
// the store can combine them. If the store panics, the request gets no answer. The plugin then uses
// the waits of its own process.
func answerWaits(ctx context.Context, stream waitStream, store ports.Waits) {
	var sendMu sync.Mutex
	slots := make(chan struct{}, maxWaitRequests)
	for {
		q, err := stream.Recv()
		if err != nil {
			return
		}
		slots <- struct{}{}
		panics.Go(func() {
			defer func() { <-slots }()
			answer := &proto.WaitAnswer{Id: q.GetId()}
			if scope := q.GetScope(); len(scope) <= maxScopeBytes {
				atLeast := min(max(q.GetAtLeast().AsDuration(), 0), maxSharedWait)
				answer.Left = durationpb.New(store.Wait(ctx, sanitize(scope), atLeast))
			}
			sendMu.Lock()
			defer sendMu.Unlock()
			_ = stream.Send(answer) // after an error the stream has ended
		}, func(*panics.Error) {})
	}
}

// ShareWaits implements the stream on the plugin's side.
func (s *pluginServer) ShareWaits(stream proto.Plugin_ShareWaitsServer) error {
	if s.shareWaits == nil {
		return s.UnimplementedPluginServer.ShareWaits(stream)
	}
	waits := &hostWaits{stream: stream, answers: map[uint64]chan time.Duration{}, ended: stream.Context().Done()}
	s.shareWaits(waits)
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	return waits.receive()
}

// hostWaits implements ports.Waits with the store of the host.
type hostWaits struct {
	stream proto.Plugin_ShareWaitsServer
	ended  <-chan struct{}

	sendMu  sync.Mutex
	mu      sync.Mutex
	lastID  uint64
	answers map[uint64]chan time.Duration // keyed by the id of the request
}

// Wait implements ports.Waits. It returns 0 if the host does not answer within waitAnswerTimeout,
// or if ctx or the stream ends first.
func (h *hostWaits) Wait(ctx context.Context, scope string, atLeast time.Duration) time.Duration {
	answer := make(chan time.Duration, 1)
	h.mu.Lock()
	h.lastID++
	id := h.lastID
	h.answers[id] = answer
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.answers, id)
	}()
	if h.send(&proto.WaitRequest{Id: id, Scope: scope, AtLeast: durationpb.New(atLeast)}) != nil {
		return 0
	}
	timeout := time.NewTimer(waitAnswerTimeout)
	defer timeout.Stop()
	select {
	case wait := <-answer:
		return wait
	case <-timeout.C:
	case <-ctx.Done():
	case <-h.ended:
	}
	return 0
}

func (h *hostWaits) send(q *proto.WaitRequest) error {
	h.sendMu.Lock()
	defer h.sendMu.Unlock()
	return h.stream.Send(q)
}

// receive passes the answers of the host to the callers of Wait until the stream ends.
func (h *hostWaits) receive() error {
	for {
		a, err := h.stream.Recv()
		if err != nil {
			return err
		}
		h.mu.Lock()
		answer := h.answers[a.GetId()]
		delete(h.answers, a.GetId())
		h.mu.Unlock()
		if answer != nil {
			answer <- a.GetLeft().AsDuration()
		}
	}
}
