"""A house with one heated room: two thermal masses, weather and a spot price."""
import math
import random

from vars import *


class Building:
    def __init__(self, dynamic, eval=False):
        self.dynamic = dynamic
        self.eval = eval
        self.reset()

    def reset(self):
        self.inside_temperature = 21.0
        self.mass_temperature = 20.0
        self.start = 0 if self.eval else random.randrange(24)
        self.time = 0
        self._weather()
        return [self.inside_temperature, self.ambient_temperature]

    def _weather(self):
        hour = (self.start + self.time) % 24
        self.ambient_temperature = 4 + 5 * math.sin((hour - 9) / 24 * 2 * math.pi) + random.gauss(0, 0.3)
        self.price = E_PRICE * (1 + 0.4 * math.sin(hour / 24 * 4 * math.pi)) if self.dynamic else E_PRICE

    def step(self, action):
        heat = HEAT_POWER * action
        for _ in range(12):
            seconds = TIME_STEP_SIZE / 12
            lost = (self.inside_temperature - self.ambient_temperature) * 60
            into = (self.inside_temperature - self.mass_temperature) * 400
            self.inside_temperature += seconds * (heat - lost - into) / C_I
            self.mass_temperature += seconds * into / C_M
        reward = -action * HEAT_POWER / 1e6 * self.price * 10
        if not T_MIN <= self.inside_temperature <= T_MAX:
            reward += COMFORT_PENALTY
        self.time += 1
        self._weather()
        return [self.inside_temperature, self.ambient_temperature], reward, self.time >= NUM_TIME_STEPS
