/* A queue of Passel: one ring, the consumer's doorbell and the producer's doorbell, as in
 * passel/shm/{ring,doorbell,queue}.h, for the model checker spin.
 *
 * A store first goes into the buffer of its process and reaches memory later. Stores to different
 * words may overtake each other, except that a release store leaves after all older ones; so what
 * holds here holds for x86-TSO and for machines that reorder stores. Loads are in order.
 *
 * The producer may be killed before each of its steps. Waiters have no time slices: a wake-up that
 * is lost is lost for good. Each safeguard can be taken out with -D:
 *
 *   NO_RING_FENCE          the fence in Doorbell::ring()
 *   NO_WAIT_FENCE          the fence in Doorbell::wait()
 *   NO_WAKE_AFTER_DEATH    the supervisor's wake_all() in place of the dead producer
 *   NO_CLOSED_IN_PREDICATE the closed flag among the reasons to wake up
 *   NO_FLAG_BEFORE_BELL    in wake_sleepers(): first the sleepers' flag down, then the bell
 *   NO_CLOSED_BEFORE_BELL  in close(): first the flag, then the bells
 *   NO_RELEASE             the release order of the ring's tail
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif

/* Processes that store. */
#define PRODUCER 0
#define CONSUMER 1
#define CLOSER 2
#define BUFFERS 3
#define DEPTH 4

/* Shared words. A message has two, so that it can be torn. */
#define TAIL 0
#define HEAD 1
#define CLOSED 2
#define BELL(b) (3 + b)
#define SLEEPING(b) (5 + b)
#define SLOT(i, half) (7 + 2 * ((i) % CAPACITY) + half)
#define WORDS 11

/* A doorbell carries the number of the process that waits on it. */
#define RELAXED false
#define RELEASE true

#ifdef NO_RELEASE
#define TAIL_ORDER RELAXED
#else
#define TAIL_ORDER RELEASE
#endif

typedef Buffer {
  byte count;
  byte word[DEPTH];
  byte value[DEPTH];
  bool release[DEPTH];
}

byte memory[WORDS];
Buffer buffer[BUFFERS];
bool asleep[2];          /* in FUTEX_WAIT */
bool running, killed;    /* running: what the pidfd tells */
byte scratch;
bool lost_wake_up, wrong_message;

inline store(self, w, v, order) {
  atomic {
    buffer[self].count < DEPTH;
    buffer[self].word[buffer[self].count] = w;
    buffer[self].value[buffer[self].count] = v;
    buffer[self].release[buffer[self].count] = order;
    buffer[self].count++
  }
}

/* A process sees its own stores at once. */
inline load(self, w, into) {
  d_step {
    into = memory[w];
    scratch = 0;
    do
    :: scratch < buffer[self].count ->
       if
       :: buffer[self].word[scratch] == w -> into = buffer[self].value[scratch]
       :: else
       fi;
       scratch++
    :: else -> break
    od;
    scratch = 0
  }
}

inline fence(self) { buffer[self].count == 0 }

#define OLDEST(p) (buffer[p].count > 0)
#define OVERTAKES(p, i, j) (buffer[p].word[i] != buffer[p].word[j])
#define SECOND(p) (buffer[p].count > 1 && !buffer[p].release[1] && OVERTAKES(p, 1, 0))
#define THIRD(p) (buffer[p].count > 2 && !buffer[p].release[2] && \
                  OVERTAKES(p, 2, 0) && OVERTAKES(p, 2, 1))
#define FOURTH(p) (buffer[p].count > 3 && !buffer[p].release[3] && \
                   OVERTAKES(p, 3, 0) && OVERTAKES(p, 3, 1) && OVERTAKES(p, 3, 2))

inline leave(p, i) {
  memory[buffer[p].word[i]] = buffer[p].value[i];
  scratch = i;
  do
  :: scratch + 1 < buffer[p].count ->
     buffer[p].word[scratch] = buffer[p].word[scratch + 1];
     buffer[p].value[scratch] = buffer[p].value[scratch + 1];
     buffer[p].release[scratch] = buffer[p].release[scratch + 1];
     scratch++
  :: else -> break
  od;
  buffer[p].count--;
  buffer[p].word[buffer[p].count] = 0;
  buffer[p].value[buffer[p].count] = 0;
  buffer[p].release[buffer[p].count] = false;
  scratch = 0
}

#define DRAIN(p)                         \
  :: d_step { OLDEST(p) -> leave(p, 0) } \
  :: d_step { SECOND(p) -> leave(p, 1) } \
  :: d_step { THIRD(p) -> leave(p, 2) }  \
  :: d_step { FOURTH(p) -> leave(p, 3) }

active proctype buffers() {
end:
  do
  DRAIN(PRODUCER)
  DRAIN(CONSUMER)
  DRAIN(CLOSER)
  od
}

/* Doorbell::wake_all(): a read-modify-write with release, then FUTEX_WAKE. */
inline raise_bell(self, b) { atomic { fence(self) -> memory[BELL(b)]++ } }
inline futex_wake(b) { asleep[b] = false }

/* Doorbell::ring() */
inline ring(self, b) {
#ifndef NO_RING_FENCE
  fence(self);
#endif
  load(self, SLEEPING(b), flag);
  if
  :: flag ->
#ifdef NO_FLAG_BEFORE_BELL
     raise_bell(self, b);
     store(self, SLEEPING(b), 0, RELAXED);
#else
     store(self, SLEEPING(b), 0, RELAXED);
     raise_bell(self, b);
#endif
     futex_wake(b)
  :: else
  fi;
  flag = 0
}

/* Doorbell::wait(), up to its look at the condition. */
inline announce_sleep(self) {
  load(self, BELL(self), seen);
  store(self, SLEEPING(self), 1, RELAXED);
#ifndef NO_WAIT_FENCE
  fence(self)
#endif
}

inline futex_wait(self) {
  atomic {
    asleep[self] = (memory[BELL(self)] == seen);
    seen = 0
  }
  !asleep[self]
}

/* RingProducer::try_push() and the ring of the consumer's bell; puts the messages 1, 2, 3 ... */
inline try_put() {
  load(PRODUCER, HEAD, head);
  if
  :: tail - head < CAPACITY ->
     store(PRODUCER, SLOT(tail, 0), tail + 1, RELAXED);
     store(PRODUCER, SLOT(tail, 1), tail + 1, RELAXED);
     store(PRODUCER, TAIL, tail + 1, TAIL_ORDER);
     tail++;
     put = true;
     ring(PRODUCER, CONSUMER)
  :: else
  fi;
  head = 0
}

proctype producer() {
  byte tail, head, closed, flag, seen;
  bool put;
  {
    load(PRODUCER, TAIL, tail);
    do
    :: tail == MESSAGES -> break
    :: tail < MESSAGES ->
       load(PRODUCER, CLOSED, closed);
       if
       :: closed -> break
       :: else
       fi;
       put = false;
       try_put();
       do
       :: put -> break
       :: !put ->
          announce_sleep(PRODUCER);
#ifndef NO_CLOSED_IN_PREDICATE
          load(PRODUCER, CLOSED, closed);
#endif
          if
          :: closed -> break
          :: else -> try_put()
          fi;
          if
          :: !put -> futex_wait(PRODUCER)
          :: else
          fi
       od
    od;
    running = false
  } unless {
    atomic { killed && running -> asleep[PRODUCER] = false; running = false }
  }
}

/* SimpleQueue::Consumer::try_get(): the flag is read before the ring. */
inline try_get() {
  load(CONSUMER, TAIL, tail);
  if
  :: tail != head ->
     load(CONSUMER, SLOT(head, 0), left);
     load(CONSUMER, SLOT(head, 1), right);
     wrong_message = (left != head + 1 || right != head + 1);
     assert(!wrong_message);
     store(CONSUMER, HEAD, head + 1, RELEASE);
     atomic { head++; left = 0; right = 0; got = true };
     ring(CONSUMER, PRODUCER)
  :: else
  fi;
  tail = 0
}

active proctype consumer() {
  byte tail, head, closed, flag, seen, left, right;
  bool got;
  do
  :: load(CONSUMER, CLOSED, closed);
     got = false;
     try_get();
     do
     :: got || closed -> break
     :: else ->
        announce_sleep(CONSUMER);
#ifndef NO_CLOSED_IN_PREDICATE
        load(CONSUMER, CLOSED, closed);
#endif
        try_get();
        if
        :: !got && !closed -> futex_wait(CONSUMER)
        :: else
        fi
     od;
     if
     :: closed && !got -> break
     :: else
     fi
  od
}

/* QueueLayout::close() from some process at any moment, or never. */
active proctype closer() {
  if
  :: skip
  :: skip ->
#ifndef NO_CLOSED_BEFORE_BELL
     store(CLOSER, CLOSED, 1, RELEASE);
#endif
     raise_bell(CLOSER, CONSUMER);
     futex_wake(CONSUMER);
     raise_bell(CLOSER, PRODUCER);
     futex_wake(PRODUCER);
#ifdef NO_CLOSED_BEFORE_BELL
     store(CLOSER, CLOSED, 1, RELEASE);
#endif
  fi
}

/* SIGKILLs the producer at any moment, or never. After the death, which comes after the last store
 * of the dead, wakes the consumer in its place and starts a successor, or does not. */
active proctype supervisor() {
  byte kills;
  do
  :: atomic { running = true; killed = false; run producer() }
     if
     :: break
     :: kills < KILLS -> kills++; killed = true
     fi;
     !running && buffer[PRODUCER].count == 0;
#ifndef NO_WAKE_AFTER_DEATH
     memory[BELL(CONSUMER)]++;
     futex_wake(CONSUMER);
#endif
     if
     :: skip
     :: break
     fi
  od
}

/* When nothing moves any more, nobody may be asleep that has a reason to be awake. */
active proctype judge() {
  timeout;
  lost_wake_up =
    (asleep[CONSUMER] && (memory[TAIL] != memory[HEAD] || memory[CLOSED])) ||
    (asleep[PRODUCER] && (memory[TAIL] - memory[HEAD] < CAPACITY || memory[CLOSED]));
  assert(!lost_wake_up)
}
