// SPDX-License-Identifier: Apache-2.0

// Package interleaving runs concurrent use cases in different orders of their steps. Only tests
// import it.
//
// A step is the start of a use case, or a call of a port. A test wraps the ports so that each
// relevant call begins with Step. Explore calls the test once for each order that it tries. In the
// test, Order.Run lets one use case at a time make a step. The test then checks what must be true
// after every order. A test without goroutines calls Order.Choose instead.
package interleaving

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

const (
	testOrders = 6   // random orders in `make test`
	soakOrders = 200 // random orders in `make soak`, in addition to the enumerated orders
)

// Order decides what happens next at each point at which a test has a choice.
type Order struct {
	// pick returns a number below n. If interrupts is true, 0 continues the running use case and
	// every other number interrupts it: a different use case makes the next step.
	pick  func(n int, interrupts bool) int
	steps []string
}

// Choose returns a number from 0 to n-1. In a soak test, each number is chosen in at least one
// order.
func (o *Order) Choose(n int) int {
	chosen := o.pick(n, false)
	o.steps = append(o.steps, strconv.Itoa(chosen))
	return chosen
}

// Explore calls runTest for some random orders. In a soak test it uses more random orders, and also
// each order with at most maxInterruptions interruptions of a running use case. It stops after the
// first order in which runTest fails, and logs the steps of that order.
func Explore(t *testing.T, maxInterruptions int, runTest func(t *testing.T, o *Order)) {
	t.Helper()
	orders := testOrders
	if soak.Enabled() {
		orders = soakOrders
		enumerate(t, maxInterruptions, runTest)
	}
	random := soak.Rand(t)
	for i := range orders {
		// Most bugs need only a few interruptions, at certain steps. Therefore not all orders have
		// many interruptions.
		rarity := 1 << (i % testOrders)
		runOneOrder(t, &Order{pick: func(n int, interrupts bool) int {
			if interrupts && random.IntN(rarity) > 0 {
				return 0
			}
			return random.IntN(n)
		}}, runTest)
	}
}

func runOneOrder(t *testing.T, o *Order, runTest func(*testing.T, *Order)) {
	t.Helper()
	// A failure in a bubble of testing/synctest ends the test, and only deferred calls still run.
	defer func() {
		if t.Failed() {
			t.Logf("in the order %s", strings.Join(o.steps, " "))
		}
	}()
	if runTest(t, o); t.Failed() {
		t.FailNow()
	}
}

// enumerate calls runTest once for each order with at most maxInterruptions interruptions. To get
// the next order, it finds the last choice of the previous order with an alternative that was not
// tried yet. It repeats the choices before that choice, and then takes the next alternative.
func enumerate(t *testing.T, maxInterruptions int, runTest func(*testing.T, *Order)) {
	t.Helper()
	type choice struct{ taken, alternatives int }
	var path []choice
	for orders := 1; ; orders++ {
		depth, interruptions := 0, 0
		runOneOrder(t, &Order{pick: func(n int, interrupts bool) int {
			if interrupts && interruptions == maxInterruptions {
				n = 1
			}
			if depth == len(path) {
				path = append(path, choice{0, n})
			}
			taken := path[depth].taken
			if depth++; interrupts && taken > 0 {
				interruptions++
			}
			return taken
		}}, runTest)
		for len(path) > 0 && path[len(path)-1].taken == path[len(path)-1].alternatives-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			t.Logf("%d orders", orders)
			return
		}
		path[len(path)-1].taken++
	}
}

// actor is one of the concurrent use cases.
type actor struct {
	name    string
	waiting atomic.Int32 // how many of its calls wait for a step: several, if it makes calls in parallel
	resume  chan struct{}
	onStep  func()
}

type actorKey struct{}

// Step waits until the actor of ctx may make its next step. It does nothing if ctx does not come
// from Order.Run.
func Step(ctx context.Context) {
	a, ok := ctx.Value(actorKey{}).(*actor)
	if !ok {
		return
	}
	a.waiting.Add(1)
	<-a.resume
	a.onStep()
}

// Steps makes each call of a wrapped port one step. It implements fake.Stepper.
type Steps struct{}

// Step calls Step, then do, and returns the error of do.
func (Steps) Step(ctx context.Context, do func() error) error {
	Step(ctx)
	return do()
}

// Run runs the use cases until all have returned, one step of one of them at a time, and returns
// their errors. Each use case begins with a step, and passes its context to its calls. Run calls
// onStep at each step, so that the test can move a clock. It must be called in a bubble of
// testing/synctest.
func (o *Order) Run(ctx context.Context, onStep func(), useCases ...func(context.Context) error) []error {
	var running atomic.Int32
	running.Store(int32(len(useCases)))
	errs, actors := make([]error, len(useCases)), make([]*actor, len(useCases))
	for i, useCase := range useCases {
		a := &actor{name: string(rune('A' + i)), resume: make(chan struct{}), onStep: onStep}
		actors[i] = a
		go func() {
			defer running.Add(-1) // also after t.FailNow
			ctx := context.WithValue(ctx, actorKey{}, a)
			Step(ctx)
			errs[i] = useCase(ctx)
		}()
	}
	var current *actor
	for synctest.Wait(); running.Load() > 0; synctest.Wait() {
		if next := o.chooseActor(actors, current); next != nil {
			current = next
			o.steps = append(o.steps, next.name)
			next.waiting.Add(-1)
			next.resume <- struct{}{}
		} else { // all use cases that run wait for a timer
			time.Sleep(time.Millisecond)
		}
	}
	return errs
}

// chooseActor chooses the actor that makes the next step. It returns nil if no actor waits for a
// step.
func (o *Order) chooseActor(actors []*actor, current *actor) *actor {
	var ready []*actor
	interrupts := current != nil && current.waiting.Load() > 0
	if interrupts {
		ready = append(ready, current)
	}
	for _, a := range actors {
		if a != current && a.waiting.Load() > 0 {
			ready = append(ready, a)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return ready[o.pick(len(ready), interrupts)]
}
