"""Trains the heating agent (DQN), or evaluates one.

    python3 main.py --model_name heat
    python3 main.py --model_name heat --eval true --ckpt PATH
"""
import argparse
import os
import pickle as pkl
import sys

import torch

from DQN import DAgent, device
from environment import Building
from utils import save
from vars import *


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt", default=None)
    parser.add_argument("--model_name", default='')
    parser.add_argument("--dynamic", default=False, type=lambda x: (str(x).lower() == 'true'))
    parser.add_argument("--eval", default=False, type=lambda x: (str(x).lower() == 'true'))
    return parser.parse_args()


def run(ckpt, model_name, dynamic, eval):
    if not eval:
        train(ckpt, model_name, dynamic)
    elif ckpt:
        evaluate(ckpt, model_name)
    else:
        print('If no training should be performed, then please choose a model that should be evaluated')


def train(ckpt, model_name, dynamic):
    env = Building(dynamic)
    scores = []
    temperatures = []
    brain = DAgent(gamma=GAMMA, epsilon=EPSILON, batch_size=BATCH_SIZE, n_actions=N_ACTIONS,
                   input_dims=INPUT_DIMS, lr=LEARNING_RATE, eps_dec=EPS_DECAY, ckpt=ckpt)
    for i_episode in range(NUM_EPISODES):
        score, temperatures_episode = brain.play(env, i_episode + 1)
        scores.append(score)
        sys.stdout.write('Finished episode {} with reward {}\n'.format(i_episode, score))
        # Update the target network, copying all weights and biases in DQN
        if i_episode % TARGET_UPDATE == 0:
            brain.target_net.load_state_dict(brain.policy_net.state_dict())
        if i_episode % SAVE_EVERY == 0:
            # Saving an intermediate model
            save(brain, os.getcwd() + model_name + 'model.pt')
        temperatures.append(temperatures_episode)

    model_params = {'NUM_EPISODES': NUM_EPISODES,
                    'EPSILON': EPSILON,
                    'EPS_DECAY': EPS_DECAY,
                    'LEARNING_RATE': LEARNING_RATE,
                    'GAMMA': GAMMA,
                    'TARGET_UPDATE': TARGET_UPDATE,
                    'BATCH_SIZE': BATCH_SIZE,
                    'E_PRICE': E_PRICE,
                    'COMFORT_PENALTY': COMFORT_PENALTY}
    scores.append(model_params)
    temperatures.append(model_params)
    output = os.getcwd() + '/data/output/' + model_name + '_dynamic_' + str(dynamic)
    with open(output + '_rewards_dqn.pkl', 'wb') as f:
        pkl.dump(scores, f)
    with open(output + '_temperatures_dqn.pkl', 'wb') as f:
        pkl.dump(temperatures, f)

    # Saving the final model
    save(brain, os.getcwd() + model_name + 'model.pt')
    print('Complete')


def evaluate(ckpt, model_name):
    brain = torch.load(ckpt, map_location=torch.device('cpu'), weights_only=False)
    brain.epsilon = brain.eps_end = 0
    env, rows = Building(dynamic=True, eval=True), []
    print('Starting evaluation of the model')
    state, done = env.reset(), False
    while not done:
        tensor = torch.tensor(state, dtype=torch.float, device=device)
        action = brain.select_action(brain.normalizer.normalize(tensor).unsqueeze(0)).item()
        state, reward, done = env.step(action)
        rows.append((env.inside_temperature, env.ambient_temperature, env.price, action, reward))
    with open(os.getcwd() + '/data/output/' + model_name + '_january_eval.pkl', 'wb') as f:
        pkl.dump(rows, f)


if __name__ == '__main__':
    args = parse_args()
    run(**vars(args))
