package delay_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/axtasks/ax"
	"github.com/axtasks/ax/delay"
	"github.com/axtasks/ax/internal/fakekafka"
)

// tier returns the status of one tier.
func tier(t *testing.T, s delay.Status, name string) delay.TierStatus {
	t.Helper()
	for _, tier := range s.Tiers {
		if tier.Tier == name {
			return tier
		}
	}
	require.Fail(t, "no tier "+name)
	return delay.TierStatus{}
}

// What an operator asks first: how much waits, when does the next one leave,
// how fast do they go.
func TestTheStatusTellsDepthNextAndRateOfEachTier(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, 10 * time.Minute}, Partitions: 2})
		far, began := b.r.Tiers()[1], time.Now()
		leave := began.Add(far.Wait)
		for p := range int32(2) {
			at := time.Now().Add(far.Wait)
			b.put(far.Topic, p, leaving(at, tasks("far", 300, "low", always(at.Add(b.domain.Delay.Window)))...)...)
			time.Sleep(time.Duration(1-p) * time.Minute)
		}
		reader := metric.NewManualReader()
		m := b.mover(delay.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
		require.False(t, b.new().Status().Running)
		time.Sleep(11 * time.Second)
		s := m.m.Status()
		require.True(t, s.Running)
		require.Empty(t, s.Problems)
		require.Empty(t, s.Warnings)
		require.Equal(t, []string{"5s", "10m", "near"}, []string{s.Tiers[0].Tier, s.Tiers[1].Tier, s.Tiers[2].Tier})
		got := tier(t, s, "10m")
		require.True(t, got.Joined)
		require.Equal(t, 2, got.Partitions)
		require.EqualValues(t, 600, got.Depth)
		require.Equal(t, 600, got.Held)
		require.Equal(t, leave.Add(-b.domain.Delay.Window/10).UTC(), got.Next.UTC())
		require.Equal(t, map[string]int{"wait": 2}, got.Pauses)
		require.Zero(t, got.Moved)

		gauges := gaugesOf(t, reader)
		require.EqualValues(t, 600, gauges["ax.tier.depth "+far.Topic])
		require.InDelta(t, far.Wait.Seconds()-71, gauges["ax.tier.next "+far.Topic], 0.2)
		require.EqualValues(t, 2, gauges["ax.tier.paused "+far.Topic+" wait"])

		time.Sleep(time.Until(leave.Add(10 * time.Second)))
		got = tier(t, m.m.Status(), "10m")
		require.EqualValues(t, 300, got.Depth)
		require.EqualValues(t, 300, got.Moved)
		require.InDelta(t, 5, got.Rate, 1, "300 in a minute, 10 s ago")
		time.Sleep(11 * time.Minute)
		got = tier(t, m.m.Status(), "10m")
		require.Zero(t, got.Depth)
		require.Zero(t, got.Next)
		require.Less(t, got.Rate, 0.01)
		require.EqualValues(t, 600, gaugesOf(t, reader)["ax.tier.moved "+far.Topic])
	})
}

// gaugesOf collects the metrics by name, topic and reason.
func gaugesOf(t *testing.T, reader *metric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	out := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := m.Name
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					out[point(name, p)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					out[point(name, p)] = p.Value
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[point(name, p)] = float64(p.Value)
				}
			}
		}
	}
	return out
}

func point[N int64 | float64](name string, p metricdata.DataPoint[N]) string {
	for _, key := range []string{"messaging.destination.name", "ax.reason"} {
		for _, kv := range p.Attributes.ToSlice() {
			if string(kv.Key) == key {
				name += " " + kv.Value.AsString()
			}
		}
	}
	return name
}

// An operator's pause and the tier's own are two reasons. Taking away one of
// them must neither release what isn't due nor leave stuck what is, and a
// partition that comes meanwhile is paused as well.
func TestAnOperatorsPauseAndTheTiersOwnDontUndoEachOther(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}, Partitions: 2, NearPartitions: 2})
		far, began := b.r.Tiers()[1], time.Now()
		var all []*ax.Task
		for p := range int32(2) {
			some := leaving(began.Add(far.Wait), tasks(string('a'+p), 1500, "low", always(began.Add(time.Minute)))...)
			b.put(far.Topic, p, some...)
			all = append(all, some...)
		}
		first := b.mover(smallFetches())
		second := b.mover(smallFetches())
		time.Sleep(10 * time.Second)
		require.Error(t, first.m.Pause("7m"))
		require.ErrorContains(t, first.m.Resume("7m"), `tier "7m": want one of 1m, 5s`)
		require.NoError(t, first.m.Pause("1m"))
		require.NoError(t, second.m.Pause(far.Topic))
		time.Sleep(10 * time.Second)
		require.NoError(t, first.m.Resume("1m"))
		require.NoError(t, second.m.Resume("1m"))
		time.Sleep(10 * time.Second)
		require.Empty(t, b.arrived(), "a resume released what isn't due")
		require.EqualValues(t, 3000, b.count(far.Topic)+b.count(b.r.Near()))

		require.NoError(t, first.m.Pause("1m"))
		require.NoError(t, second.stop()) // its partition comes to one that is paused
		time.Sleep(time.Until(began.Add(2 * time.Minute)))
		require.Empty(t, b.arrived())
		got := tier(t, first.m.Status(), "1m")
		require.True(t, got.Paused)
		require.Equal(t, 2, got.Pauses["command"])
		require.NoError(t, first.m.Healthy(), "what an operator wants is no fault")
		require.NoError(t, first.m.Resume("1m"))
		time.Sleep(2 * time.Second)
		b.requireOnTime(time.Minute+2*time.Second, all...)

		again := leaving(time.Now(), tasks("again", 10, "high", always(time.Now().Add(time.Second)))...)
		b.put(far.Topic, 1, again...)
		time.Sleep(5 * time.Second)
		b.requireOnTime(time.Minute+2*time.Second, append(all, again...)...)
	})
}

// What waits for room in its lane hasn't left yet.
func TestAPauseHoldsWhatWaitsForRoomInItsLane(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		m := b.mover()
		time.Sleep(2 * time.Second)
		fault := b.refuse(b.r.Lane("high"))
		all := tasks("t", 2*delay.MaxOpen, "high", always(time.Now().Add(time.Second)))
		b.put(b.r.Near(), 0, all...)
		time.Sleep(5 * time.Second)
		require.NoError(t, m.m.Pause("near"))
		fault.Remove()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, len(b.arrived()), delay.MaxOpen, "what was on its way")
		require.NoError(t, m.m.Resume("near"))
		time.Sleep(time.Minute)
		b.requireOnTime(2*time.Minute, all...)
	})
}

// A pause that was asked for before there was anything to pause.
func TestAPauseBeforeTheRunHoldsFromTheFirstRecordOn(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{})
		all := tasks("t", 10, "low", always(time.Now().Add(time.Second)))
		b.put(b.r.Near(), 0, all...)
		m := b.new()
		require.NoError(t, m.Pause("near"))
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Empty(t, b.arrived())
		require.NoError(t, m.Resume("near"))
		time.Sleep(time.Second)
		require.Len(t, b.arrived(), 10)
		stop()
		require.NoError(t, <-done)
	})
}

func TestTheOperatorsHandlerTellsAndObeys(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second}})
		m := b.mover()
		time.Sleep(2 * time.Second)
		ask := func(method, path string) (int, delay.Status) {
			w := httptest.NewRecorder()
			m.m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
			var s delay.Status
			if w.Code == http.StatusOK {
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
			}
			return w.Code, s
		}
		code, s := ask("POST", "/tiers/5s/pause")
		require.Equal(t, http.StatusOK, code)
		require.True(t, tier(t, s, "5s").Paused)
		require.False(t, tier(t, s, "near").Paused)
		code, s = ask("POST", "/tiers/5s/resume")
		require.Equal(t, http.StatusOK, code)
		require.False(t, tier(t, s, "5s").Paused)
		code, _ = ask("POST", "/tiers/6s/pause")
		require.Equal(t, http.StatusNotFound, code)
		code, _ = ask("GET", "/tiers/5s/pause")
		require.Equal(t, http.StatusMethodNotAllowed, code)
		code, s = ask("GET", "/status")
		require.Equal(t, http.StatusOK, code)
		require.True(t, s.Running)
	})
}

// A hand that shortens a tier's retention loses what waits there. The broker
// acts on it within five minutes; the mover says so before.
func TestASettingThatLosesTasksIsAnAlarmUntilItIsMended(t *testing.T) {
	t.Parallel()
	fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
		b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Hour}})
		reader := metric.NewManualReader()
		m := b.mover(delay.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
		time.Sleep(2 * time.Minute)
		require.Empty(t, m.m.Status().Warnings)
		far := b.r.Tiers()[1].Topic
		set := func(key, value string) {
			got, err := c.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, far)
			require.NoError(t, err)
			require.NoError(t, got[0].Err)
		}
		for _, harm := range []struct{ key, value, back string }{
			{"retention.ms", "600000", "-1"}, {"retention.bytes", "1000", "-1"},
			{"cleanup.policy", "compact", "delete"}, {"message.timestamp.type", "CreateTime", "LogAppendTime"},
		} {
			set(harm.key, harm.value)
			time.Sleep(time.Minute + time.Second)
			s := m.m.Status()
			require.Len(t, s.Warnings, 1)
			require.Contains(t, s.Warnings[0], far+" "+harm.key+" "+harm.value)
			require.NoError(t, m.m.Healthy(), "no restart mends it")
			require.EqualValues(t, 1, gaugesOf(t, reader)["ax.topic.endangered"])
			set(harm.key, harm.back)
			time.Sleep(time.Minute + time.Second)
			require.Empty(t, m.m.Status().Warnings)
		}
		set("max.message.bytes", "2000000")
		time.Sleep(time.Minute + time.Second)
		require.Empty(t, m.m.Status().Warnings, "a difference that does no harm is for the plan")
	})
}

// The broker's clock is measured from what is read as it is written, whatever
// else is read late.
func TestTheBrokersClockIsMeasured(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, -5 * time.Minute, 90 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			fakekafka.Bubble(t, func(t *testing.T, c *fakekafka.Cluster) {
				b := newBench(t, c, ax.Delay{Tiers: []time.Duration{5 * time.Second, time.Minute}})
				old := time.Now()
				b.put(b.r.Near(), 0, tasks("old", 20, "low", always(old.Add(2*time.Second)))...)
				time.Sleep(10 * time.Minute) // nobody moves
				m := b.mover(delay.WithKafka(kgo.WithHooks(skew(off))))
				time.Sleep(3 * time.Second)
				require.False(t, tier(t, m.m.Status(), "near").Timed)
				for i := range 40 {
					b.put(b.r.Near(), 0, tasks(string(rune('a'+i)), 1, "low", always(time.Now().Add(time.Second)))...)
					time.Sleep(900 * time.Millisecond)
				}
				s := m.m.Status()
				got := tier(t, s, "near")
				require.True(t, got.Timed)
				require.InDelta(t, off.Seconds(), got.Clock.Seconds(), 0.001)
				if off == 0 {
					require.Empty(t, s.Warnings)
				} else {
					require.Len(t, s.Warnings, 1)
					require.Contains(t, s.Warnings[0], "tier near: a broker's clock is "+off.Abs().String())
				}
			})
		})
	}
}
